import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FilePassageRow, FileRow, OwnTables, TimestampText } from '../../own-tables.ts';
import { inParts } from '../in-parts.ts';

/** Ids per statement, below every database's limit of bound values. */
const IDS_PER_STATEMENT = 500;
/** A row binds some twenty values. */
const ROWS_PER_STATEMENT = 40;

/** Whose lease it takes to write files of a source: no resource has a colon in its name. */
export const FILES_LEASE = 'files:';

/** What tells a file apart from all others of its resource. */
export type FilePlace = Pick<FileRow, 'record_id' | 'field' | 'position'>;
/** What tells one of its contents apart. */
type FileKey = FilePlace & Pick<FileRow, 'resource' | 'version'>;

/** A text that is the same for the same file. */
export function placeText({ record_id, field, position }: FilePlace): string {
  return JSON.stringify([record_id, field, position]);
}

/** The last row of each file of these records, by the record's id, whether it is shown now or not. */
export async function lastFiles(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): Promise<Map<string, FileRow[]>> {
  const last = new Map<string, FileRow>();
  for (const part of inParts(ids, IDS_PER_STATEMENT)) {
    const rows = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource);
    for (const row of await rows.where('record_id', 'in', part).orderBy('version').execute()) {
      last.set(placeText(row), row);
    }
  }
  return Map.groupBy(last.values(), ({ record_id }) => record_id);
}

/** Up to `limit` files that are to be asked for at a moment, those that have waited longest first, behind `after`. */
export function dueFiles(
  own: Kysely<OwnTables>,
  resource: string,
  now: TimestampText,
  after: FileRow | null,
  limit: number,
): Promise<FileRow[]> {
  const due = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).where('due_at', '<=', now);
  const behind =
    after === null
      ? due
      : due.where((eb) =>
          eb(
            eb.refTuple('due_at', 'record_id', 'field', 'position'),
            '>',
            eb.tuple(after.due_at, after.record_id, after.field, after.position),
          ),
        );
  return behind.orderBy('due_at').orderBy('record_id').orderBy('field').orderBy('position').limit(limit).execute();
}

/** When the next file of these resources is to be asked for; null if none is. */
export async function nextDue(own: Kysely<OwnTables>, resources: readonly string[]): Promise<TimestampText | null> {
  if (resources.length === 0) return null;
  const due = own.selectFrom('_sync_files').where('resource', 'in', resources).where('due_at', 'is not', null);
  const { at } = await due.select(({ fn }) => fn.min('due_at').as('at')).executeTakeFirstOrThrow();
  return at;
}

/** Ids, in order and behind `after`, of records that have a file that is shown. */
export async function shownRecordsAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const shown = own.selectFrom('_sync_files').select('record_id').distinct().where('resource', '=', resource);
  const behind = shown.where('record_id', '>', after).where('valid_to', 'is', null);
  const rows = await behind.orderBy('record_id').limit(limit).execute();
  return rows.map(({ record_id }) => record_id);
}

/** All columns but the version. */
const COPIED = [
  'resource',
  'record_id',
  'field',
  'position',
  'url',
  'next_url',
  'status',
  'store',
  'sha256',
  'bytes',
  'type',
  'width',
  'height',
  'etag',
  'last_modified',
  'record_hash',
  'attempts',
  'due_at',
  'code',
  'error',
  'fetched_at',
  'valid_from',
  'valid_to',
] as const satisfies readonly (keyof FileRow)[];

export function insertFiles(own: Kysely<OwnTables>, rows: readonly FileRow[]): CompiledQuery[] {
  return inParts(rows, ROWS_PER_STATEMENT).map((part) => own.insertInto('_sync_files').values(part).compile());
}

/** Changes one row, if it is still there: whoever erases a record does not wait for its files. */
export function changeFile(own: Kysely<OwnTables>, key: FileKey, change: Partial<FileRow>): CompiledQuery {
  return own.updateTable('_sync_files').set(change).where(isRow(key)).compile();
}

/** Forgets one row. */
export function removeFile(own: Kysely<OwnTables>, key: FileKey): CompiledQuery {
  return own.deleteFrom('_sync_files').where(isRow(key)).compile();
}

function isRow({ resource, record_id, field, position, version }: FileKey) {
  return (where: ExpressionBuilder<OwnTables, '_sync_files'>): Expression<SqlBool> =>
    where.and({ resource, record_id, field, position, version });
}

/**
 * Another content takes the place of the one that was shown: `left` is what becomes of that one's row, `next` what the
 * new one differs in. Nothing comes of it where the record has been erased meanwhile.
 */
export function replaceFile(
  own: Kysely<OwnTables>,
  key: FileKey,
  left: Partial<FileRow>,
  next: Partial<FileRow>,
): CompiledQuery[] {
  const copied = own
    .insertInto('_sync_files')
    .columns([...COPIED, 'version'])
    .expression((eb) =>
      eb
        .selectFrom('_sync_files')
        .select([...COPIED, sql<number>`"version" + 1`.as('version')])
        .where(isRow(key)),
    );
  return [copied.compile(), changeFile(own, key, left), changeFile(own, { ...key, version: key.version + 1 }, next)];
}

/** Has all that was last found to be as it is here before a moment asked for again. */
export function recheckFiles(
  own: Kysely<OwnTables>,
  resource: string,
  before: TimestampText,
  now: TimestampText,
): CompiledQuery {
  return own
    .updateTable('_sync_files')
    .set({ due_at: now })
    .where('resource', '=', resource)
    .where('valid_to', 'is', null)
    .where('due_at', 'is', null)
    .where('status', 'in', ['stored', 'gone'])
    .where('fetched_at', '<', before)
    .compile();
}

/** Takes away all that is remembered of the files of records. Their contents stay in the store, for `files prune`. */
export function deleteFilesOf(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  return inParts(ids, IDS_PER_STATEMENT).map((part) =>
    own.deleteFrom('_sync_files').where('resource', '=', resource).where('record_id', 'in', part).compile(),
  );
}

/** How far the records of a resource were looked at for their files; null before the first time. */
export async function readPassage(own: Kysely<OwnTables>, resource: string): Promise<FilePassageRow | null> {
  const found = own.selectFrom('_sync_file_passages').selectAll().where('resource', '=', resource);
  return (await found.executeTakeFirst()) ?? null;
}

export function savePassage(own: Kysely<OwnTables>, row: FilePassageRow): CompiledQuery {
  return own
    .insertInto('_sync_file_passages')
    .values(row)
    .onConflict((conflict) => conflict.column('resource').doUpdateSet(row))
    .compile();
}
