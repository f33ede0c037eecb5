// Queries on the versions of records (`_sync_versions`). A version has the body that the copy keeps, and its source text, as
// the service sent it, if the profile hides fields and keeps the text.
import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables } from '../own-tables.ts';
import { inParts } from './in-parts.ts';

/** The stored body of a version. */
export interface StoredBody {
  id: string;
  version: number;
  body: string;
}

function versionsOf(own: Kysely<OwnTables>, resource: string) {
  return own.selectFrom('_sync_versions').select(['id', 'version', 'body']).where('resource', '=', resource);
}

/** The versions that have a body; one that marks a delete has none. */
function withBody(rows: readonly { id: string; version: number; body: string | null }[]): StoredBody[] {
  return rows.flatMap(({ body, ...row }) => (body === null ? [] : [{ ...row, body }]));
}

/** The current bodies among `ids`, by id, as far as the history retains them. */
export async function currentBodies(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  const current = versionsOf(own, resource).where('valid_to', 'is', null).where('op', '=', 'upsert');
  for (const part of inParts(ids)) {
    for (const { id, body } of withBody(await current.where('id', 'in', part).execute())) bodies.set(id, body);
  }
  return bodies;
}

/** Up to `limit` current bodies of a resource in the order of their ids, those after `after`. */
export async function bodiesAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<StoredBody[]> {
  const current = versionsOf(own, resource).where('valid_to', 'is', null).where('op', '=', 'upsert');
  const next = current.where('id', '>', after).where('body', 'is not', null).orderBy('id').limit(limit);
  return withBody(await next.execute());
}

/** Up to `limit` bodies of all versions of a resource, in the order of ids and versions, those after `after`. */
export async function versionsAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: { id: string; version: number },
  limit: number,
): Promise<StoredBody[]> {
  const next = versionsOf(own, resource)
    .where('body', 'is not', null)
    .where((is) => is(is.refTuple('id', 'version'), '>', is.tuple(after.id, after.version)))
    .orderBy('id')
    .orderBy('version')
    .limit(limit);
  return withBody(await next.execute());
}

/** Up to `limit` bodies in the order of their ids, those after `after`: the last one of each record, deleted ones too. */
export async function lastBodiesAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<StoredBody[]> {
  const last = own
    .selectFrom('_sync_versions as v')
    .select(['v.id', 'v.version', 'v.body'])
    .where('v.resource', '=', resource)
    .where('v.id', '>', after)
    .where('v.body', 'is not', null)
    .where((is) => {
      const later = is.selectFrom('_sync_versions as w').select('w.version').where('w.resource', '=', resource);
      const withId = later.whereRef('w.id', '=', 'v.id').whereRef('w.version', '>', 'v.version');
      return is.not(is.exists(withId.where('w.body', 'is not', null)));
    });
  return withBody(await last.orderBy('v.id').limit(limit).execute());
}

/** One statement updates this many, each by a `CASE`. */
const TEXTS_PER_STATEMENT = 100;

/** Stores source texts with the current versions of their records. */
export function saveSourceTexts(
  own: Kysely<OwnTables>,
  resource: string,
  texts: readonly { id: string; text: string }[],
): CompiledQuery[] {
  return inParts(texts, TEXTS_PER_STATEMENT).flatMap((part) => {
    const ids = part.map(({ id }) => id);
    const [first, ...others] = part;
    if (first === undefined) return [];
    return own
      .updateTable('_sync_versions')
      .set(({ eb }) => {
        const start = eb.case('id').when(first.id).then(first.text);
        return { source_text: others.reduce((cases, { id, text }) => cases.when(id).then(text), start).end() };
      })
      .where('resource', '=', resource)
      .where('id', 'in', ids)
      .where('valid_to', 'is', null)
      .where('op', '=', 'upsert')
      .compile();
  });
}

/** Removes the source texts from versions that mark a delete. */
export function forgetSourceTexts(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  const deleted = own.updateTable('_sync_versions').set({ source_text: null }).where('resource', '=', resource);
  return deleted.where('op', '=', 'delete').where('source_text', 'is not', null).compile();
}
