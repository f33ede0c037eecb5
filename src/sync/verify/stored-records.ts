import { sql } from 'kysely';
import type { ResourceShape } from '../../model/table.ts';
import type { SnapshotReader, ViewQuery } from '../../warehouse/snapshot-reader.ts';
import { addToDigest, storedRows, type SpelledRow } from './spelled-rows.ts';

/** A row of a resource's own table, with what its cells and child rows come to. */
export interface StoredRecord {
  key: string;
  hash: string;
  version: number;
  isDeleted: boolean;
  digest: string;
  childRows: number;
  /** True if positions of its child rows are not 0, 1, 2 and so on. */
  hasGap: boolean;
}

/** Neighbouring rows of a resource, and the child rows between them. */
export interface StoredPage {
  records: Map<string, StoredRecord>;
  /** Child rows of no row: the table and the key. */
  orphans: { table: string; key: string }[];
}

const ROWS_PER_PAGE = 500;
const OURS = ['_hash', '_version', '_deleted_at'];

/** All rows of a resource in the order of their keys, with their child rows; memory is that of a page. */
export async function* storedPages(snapshot: SnapshotReader, shape: ResourceShape): AsyncGenerator<StoredPage> {
  const key = { name: shape.tables[0]?.key[0] ?? '', type: 'text' } as const;
  for (let from: string | null = null; ;) {
    const records = new Map<string, StoredRecord>();
    let below: string | null = null;
    const within: NonNullable<ViewQuery['within']> = { column: key, from, below: null };
    for await (const row of storedRows(snapshot, shape, 0, { within, limit: ROWS_PER_PAGE + 1 }, OURS)) {
      if (records.size === ROWS_PER_PAGE) below = row.key;
      else records.set(row.key, recordOf(row));
    }
    yield { records, orphans: await addChildren(snapshot, shape, records, { from, below }) };
    if (below === null) return;
    from = below;
  }
}

function recordOf(row: SpelledRow & { own: readonly (string | null)[] }): StoredRecord {
  const [hash = '', version = '', deletedAt = null] = row.own;
  const none = { childRows: 0, hasGap: false };
  const ours = { hash: hash ?? '', version: Number(version), isDeleted: deletedAt !== null };
  return { key: row.key, ...ours, ...none, digest: addToDigest('', row) };
}

/** Adds the child rows of these keys to their records; returns those that belong to none. */
async function addChildren(
  snapshot: SnapshotReader,
  shape: ResourceShape,
  records: ReadonlyMap<string, StoredRecord>,
  { from, below }: { from: string | null; below: string | null },
): Promise<StoredPage['orphans']> {
  const orphans = new Map<string, { table: string; key: string }>();
  for (const [index, table] of shape.tables.entries()) {
    if (index === 0) continue;
    const column = { name: table.key[0] ?? '', type: 'text' } as const;
    const last = { key: '', positions: [] as readonly string[] };
    for await (const row of storedRows(snapshot, shape, index, { within: { column, from, below } })) {
      const record = records.get(row.key);
      if (record === undefined) orphans.set(`${index} ${row.key}`, { table: table.name, key: row.key });
      else {
        record.childRows += 1;
        record.digest = addToDigest(record.digest, row);
        record.hasGap ||= !follows(row.positions, last.key === row.key ? last.positions : null);
      }
      Object.assign(last, { key: row.key, positions: row.positions });
    }
  }
  return [...orphans.values()];
}

/** True for the first element of a list, or the one after the element before it. */
function follows(positions: readonly string[], before: readonly string[] | null): boolean {
  const at = Number(positions.at(-1));
  const isSameList = before !== null && positions.slice(0, -1).every((each, index) => each === before[index]);
  return at === (isSameList ? Number(before?.at(-1)) + 1 : 0);
}

/** All rows of one record as they stand, and the cells of ours in its own; none if it has no row. */
export async function storedRecord(
  snapshot: SnapshotReader,
  shape: ResourceShape,
  key: string,
): Promise<{ record: StoredRecord; rows: SpelledRow[] } | null> {
  let record: StoredRecord | null = null;
  const rows: SpelledRow[] = [];
  for (const [index, table] of shape.tables.entries()) {
    const where = { column: table.key[0] ?? '', is: key };
    for await (const row of storedRows(snapshot, shape, index, { where }, index === 0 ? OURS : [])) {
      rows.push(row);
      if (index === 0) record = recordOf(row);
      else if (record !== null) record.digest = addToDigest(record.digest, row);
    }
  }
  return record === null ? null : { record, rows };
}

const KEYS_PER_QUESTION = 1_000;

/** Which of these keys have a row. */
export async function keysThere(
  { own }: SnapshotReader,
  shape: ResourceShape,
  keys: readonly string[],
): Promise<Set<string>> {
  const [table] = shape.tables;
  if (table === undefined || keys.length === 0) return new Set();
  const key = sql.id(table.key[0] ?? '');
  const found = sql<{
    key: string;
  }>`SELECT ${key} AS "key" FROM ${sql.id(table.name)} WHERE ${key} IN (${sql.join(keys)})`;
  return new Set((await found.execute(own)).rows.map((row) => row.key));
}

/** Ids of versions of which there is no row. */
export async function* versionsWithoutRow(snapshot: SnapshotReader, shape: ResourceShape): AsyncGenerator<string> {
  const versions = snapshot.own.selectFrom('_sync_versions').select('id').distinct();
  for (let after: string | null = null; ;) {
    const those = versions.where('resource', '=', shape.resource).orderBy('id').limit(KEYS_PER_QUESTION);
    const rows = await (after === null ? those : those.where('id', '>', after)).execute();
    const ids = rows.map(({ id }) => id);
    const there = await keysThere(snapshot, shape, ids);
    for (const id of ids) if (!there.has(id)) yield id;
    if (ids.length < KEYS_PER_QUESTION) return;
    after = ids.at(-1) ?? null;
  }
}
