import type { CompiledQuery, Kysely } from 'kysely';
import { inParts } from './in-parts.ts';
import type { OwnTables } from '../own-tables.ts';

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 1_000;

/** The current body of a record, as the service sent it. */
export interface StoredBody {
  id: string;
  version: number;
  body: string;
}

/** The current bodies among `ids`, by id; those that the history does not keep are not there. */
export async function currentBodies(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  for (const part of inParts(ids, IDS_PER_STATEMENT)) {
    const rows = await currentVersions(own, resource).where('id', 'in', part).execute();
    for (const { id, body } of rows) if (body !== null) bodies.set(id, body);
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
  const kept = currentVersions(own, resource).where('id', '>', after).where('body', 'is not', null);
  const rows = await kept.orderBy('id').limit(limit).execute();
  return rows.flatMap(({ body, ...row }) => (body === null ? [] : [{ ...row, body }]));
}

/** Up to `limit` stored bodies of all versions of a resource, in the order of ids and versions, those behind `after`. */
export async function versionsAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: Pick<StoredBody, 'id' | 'version'>,
  limit: number,
): Promise<StoredBody[]> {
  const rows = await own
    .selectFrom('_sync_versions')
    .select(['id', 'version', 'body'])
    .where('resource', '=', resource)
    .where('body', 'is not', null)
    .where((is) =>
      is.or([is('id', '>', after.id), is.and([is('id', '=', after.id), is('version', '>', after.version)])]),
    )
    .orderBy('id')
    .orderBy('version')
    .limit(limit)
    .execute();
  return rows.flatMap(({ body, ...row }) => (body === null ? [] : [{ ...row, body }]));
}

/**
 * Up to `limit` bodies of a resource in the order of their ids, those after `after`: the last one of each record, also of
 * those that were deleted since.
 */
export async function lastBodiesAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<StoredBody[]> {
  const rows = await own
    .selectFrom('_sync_versions as v')
    .select(['v.id', 'v.version', 'v.body'])
    .where('v.resource', '=', resource)
    .where('v.id', '>', after)
    .where('v.body', 'is not', null)
    .where((is) =>
      is.not(
        is.exists(
          is
            .selectFrom('_sync_versions as w')
            .select('w.version')
            .where('w.resource', '=', resource)
            .whereRef('w.id', '=', 'v.id')
            .whereRef('w.version', '>', 'v.version')
            .where('w.body', 'is not', null),
        ),
      ),
    )
    .orderBy('v.id')
    .limit(limit)
    .execute();
  return rows.flatMap(({ body, ...row }) => (body === null ? [] : [{ ...row, body }]));
}

function currentVersions(own: Kysely<OwnTables>, resource: string) {
  const versions = own.selectFrom('_sync_versions').select(['id', 'version', 'body']).where('resource', '=', resource);
  return versions.where('valid_to', 'is', null).where('op', '=', 'upsert');
}

/** Texts per statement. */
const TEXTS_PER_STATEMENT = 100;

/** Keeps texts beside the current versions of their records. */
export function saveSourceTexts(
  own: Kysely<OwnTables>,
  resource: string,
  texts: readonly { id: string; text: string }[],
): CompiledQuery[] {
  return inParts(texts, TEXTS_PER_STATEMENT).map((part) =>
    own
      .updateTable('_sync_versions')
      .set(({ eb }) => {
        const [first, ...others] = part;
        const start = eb
          .case('id')
          .when(first?.id ?? '')
          .then(first?.text ?? '');
        return { source_text: others.reduce((cases, { id, text }) => cases.when(id).then(text), start).end() };
      })
      .where('resource', '=', resource)
      .where(
        'id',
        'in',
        part.map(({ id }) => id),
      )
      .where('valid_to', 'is', null)
      .where('op', '=', 'upsert')
      .compile(),
  );
}

/** Takes away the texts of records that are deleted, where their versions stand for the delete. */
export function forgetSourceTexts(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  const deleted = own.updateTable('_sync_versions').set({ source_text: null }).where('resource', '=', resource);
  return deleted.where('op', '=', 'delete').where('source_text', 'is not', null).compile();
}

/** The highest version that is kept of each of these ids. */
export async function latestVersions(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): Promise<Map<string, number>> {
  const latest = new Map<string, number>();
  for (const part of inParts(ids, IDS_PER_STATEMENT)) {
    const versions = own.selectFrom('_sync_versions').select(['id', 'version']).where('resource', '=', resource);
    for (const { id, version } of await versions.where('id', 'in', part).execute())
      latest.set(id, Math.max(latest.get(id) ?? 0, version));
  }
  return latest;
}
