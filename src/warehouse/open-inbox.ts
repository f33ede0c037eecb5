import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import type { Inbox } from './inbox.ts';
import { openPostgresInbox, type PostgresInboxOptions } from './postgres/inbox/open-inbox.ts';
import { openSqliteInbox, type SqliteInboxOptions } from './sqlite/inbox/open-inbox.ts';

/** What only some databases take; the others do without. */
export type InboxOptions = PostgresInboxOptions & SqliteInboxOptions;

interface InboxKind {
  /** Where the inbox of a warehouse lies. */
  beside: (place: string) => string;
  open: (place: string, clock: Clock, options?: InboxOptions) => Promise<Inbox>;
}

/** By the scheme of the `warehouse` setting; a further database is a further row. */
const DATABASES: Readonly<Record<string, InboxKind>> = {
  // A file of its own, so that nothing that is done with the warehouse, by whomever, delays an answer.
  sqlite: { beside: (file) => `${file.replace(/\.(db|sqlite3?)$/, '')}-inbox.db`, open: openSqliteInbox },
  // In the same schema, so that a delivery and what asks for its work are one transaction.
  postgres: { beside: (place) => place, open: openPostgresInbox },
};

/** `sqlite:/var/lib/content-sync/blog.db` to `sqlite:/var/lib/content-sync/blog-inbox.db`; on Postgres the same. */
export function inboxAddress(warehouse: string): string {
  const { scheme, place, kind } = parseAddress(warehouse);
  return `${scheme}:${kind.beside(place)}`;
}

/** Opens (and makes, and migrates) an inbox. Throws `ConfigError` where it cannot be used. */
export function openInbox(address: string, clock: Clock, options?: InboxOptions): Promise<Inbox> {
  const { place, kind } = parseAddress(address);
  return kind.open(place, clock, options);
}

function parseAddress(address: string): { scheme: string; place: string; kind: InboxKind } {
  const [, scheme = '', place = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const kind = DATABASES[scheme];
  if (kind !== undefined) return { scheme, place, kind };
  throw new ConfigError('config_invalid', `warehouse: no inbox is known by "${scheme}:"`, {
    hint: `use one of ${Object.keys(DATABASES).join(', ')}, such as sqlite:data/{source}.db`,
  });
}
