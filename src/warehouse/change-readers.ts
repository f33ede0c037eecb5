import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { changePostgresReaders } from './postgres/pages/readers.ts';
import type { Readers, ReadersRequest } from './readers.ts';

type ChangeReaders = (rest: string, clock: Clock, request: ReadersRequest) => Promise<Readers>;

/** By the scheme of the `warehouse` setting. */
const DATABASES: Readonly<Record<string, ChangeReaders>> = {
  sqlite: (file) =>
    Promise.reject(
      new ConfigError('grants_unsupported', `${file}: SQLite knows no roles`, {
        hint: 'who may read the file may read all of it: use the rights of files, or a Postgres warehouse',
      }),
    ),
  postgres: changePostgresReaders,
};

/** Reserved by Postgres, or too long for it. */
const NO_ROLE = /^(?:pg_|public$|none$|current_|session_user$)|^$|\0/;
const LONGEST = 63;

/** Lets a role read a source's copied tables and views, and nothing else of ours. Throws `ConfigError`, `SyncError`. */
export async function changeReaders(address: string, clock: Clock, request: ReadersRequest): Promise<Readers> {
  const { role } = request;
  if (NO_ROLE.test(role) || Buffer.byteLength(role) > LONGEST) {
    throw new ConfigError('usage', `"${role}" cannot be the name of a role`, { hint: 'name another one with --role' });
  }
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const change = DATABASES[scheme];
  if (change === undefined) throw new Error(`no database is known by ${scheme}:`);
  return change(rest, clock, request);
}
