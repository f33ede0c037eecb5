import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import type { HistoryPolicy } from '../../../model/vocabulary.ts';
import type { SoftDelete, Purge } from '../../warehouse.ts';
import { deleteStatement } from './row-statements.ts';
import type { Session } from '../connection/session.ts';
import { execute, type Database } from '../connection/transact.ts';

interface Buried extends Record<string, unknown> {
  key: string;
  version: number;
  hash: string;
}

const BURIED = `unnest($2::text[], $3::bigint[], $4::text[], $5::timestamp[]) AS b("id", "version", "hash", "at")`;

/**
 * A version that says so: of its own where all are kept, else the latest one becomes it and keeps its body. Parameters:
 * the resource, then what was buried, column by column.
 */
const REMEMBER: Readonly<Record<HistoryPolicy, readonly string[]>> = {
  none: [],
  latest: [
    `UPDATE "_sync_versions" AS v SET "version" = b."version", "valid_from" = b."at", "op" = 'delete' FROM ${BURIED}
     WHERE v."resource" = $1 AND v."id" = b."id"`,
  ],
  all: [
    `UPDATE "_sync_versions" AS v SET "valid_to" = b."at" FROM ${BURIED}
     WHERE v."resource" = $1 AND v."id" = b."id" AND v."valid_to" IS NULL`,
    `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash")
     SELECT $1::text, b."id", b."version", b."at", 'delete', b."hash" FROM ${BURIED}`,
  ],
};

/**
 * Marks live rows as deleted and takes their child rows away; the record's body stays in its version. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export async function softDelete(session: Session, burial: SoftDelete): Promise<string[]> {
  const { resource, history, table, children, gone } = burial;
  const confirmed = new Map(gone.map(({ key, confirmedAt }) => [key, confirmedAt]));
  const { rows } = await session.execute<Buried>(markText(table), [[...confirmed.keys()], [...confirmed.values()]]);
  const keys = rows.map(({ key }) => key);
  if (keys.length === 0) return keys;
  for (const child of children) await session.execute(deleteStatement(child), [keys]);
  const versions = rows.map(({ version }) => version);
  const hashes = rows.map(({ hash }) => hash);
  const moments = keys.map((key) => confirmed.get(key));
  for (const text of REMEMBER[history]) await session.execute(text, [resource, keys, versions, hashes, moments]);
  return keys;
}

/** Removes rows that were deleted long ago, and their versions. Runs inside the caller's transaction. */
export async function purge(session: Session, { resource, table, deletedBefore, limit }: Purge): Promise<number> {
  const { rows } = await session.execute<{ key: string }>(oldText(table), [deletedBefore, limit]);
  const keys = rows.map(({ key }) => key);
  await session.execute(deleteStatement(table), [keys]);
  await session.execute('DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)', [resource, keys]);
  await session.execute('DELETE FROM "_sync_suspects" WHERE "resource" = $1 AND "record_id" = ANY($2)', [
    resource,
    keys,
  ]);
  return keys.length;
}

/** The guard leaves alone what was written after the service was asked. */
function markText(table: TableShape): string {
  const key = escapeIdentifier(table.key[0] ?? '');
  return `UPDATE ${escapeIdentifier(table.name)} AS t
    SET "_deleted_at" = gone."at", "_synced_at" = gone."at", "_version" = t."_version" + 1
    FROM unnest($1::text[], $2::timestamptz[]) AS gone("key", "at")
    WHERE t.${key} = gone."key" AND t."_deleted_at" IS NULL AND t."_synced_at" <= gone."at"
    RETURNING t.${key} AS "key", t."_version" AS "version", t."_hash" AS "hash"`;
}

function oldText(table: TableShape): string {
  return `SELECT ${escapeIdentifier(table.key[0] ?? '')} AS "key" FROM ${escapeIdentifier(table.name)}
    WHERE "_deleted_at" < $1 ORDER BY "_deleted_at" LIMIT $2`;
}

/** The index of the keys alone answers this: hardly a row is read. */
export async function keysAfter(
  database: Database,
  table: TableShape,
  after: string,
  limit: number,
): Promise<string[]> {
  const key = escapeIdentifier(table.key[0] ?? '');
  const { rows } = await execute(database)<{ key: string }>(
    `SELECT ${key} AS "key" FROM ${placeOf(database, table)} WHERE ${key} > $1 ORDER BY ${key} LIMIT $2`,
    [after, limit],
  );
  return rows.map((row) => row.key);
}

/** A table of so few blocks is read whole: there are fewer places in it than rows. */
const SMALL_BLOCKS = 8;

/** The first row, the last, and some in between, by their places in the table: about the order in which they came. */
export async function liveSample(
  database: Database,
  table: TableShape,
  resource: string,
  limit: number,
): Promise<string[]> {
  const ask = execute(database);
  const size = await ask<{ blocks: number }>(BLOCKS, [placeOf(database, table)]);
  const blocks = size.rows[0]?.blocks ?? 0;
  const key = escapeIdentifier(table.key[0] ?? '');
  const live = `SELECT t.${key} AS "key" FROM ${placeOf(database, table)} AS t WHERE t."_deleted_at" IS NULL AND NOT EXISTS (
    SELECT 1 FROM ${escapeIdentifier(database.schema)}."_sync_suspects" AS s
    WHERE s."resource" = $1 AND s."record_id" = t.${key})`;
  const isSmall = blocks <= SMALL_BLOCKS;
  const places = spread(blocks, limit).map((block) => `(${block},0)`);
  const { rows } = isSmall
    ? await ask<{ key: string }>(`${live} ORDER BY t.ctid`, [resource])
    : await ask<{ key: string }>(atPlaces(live), [resource, places]);
  const keys = rows.map((row) => row.key);
  return isSmall ? spread(keys.length, limit).flatMap((at) => keys[at] ?? []) : [...new Set(keys)];
}

const BLOCKS = `SELECT pg_relation_size($1::regclass) / current_setting('block_size')::int AS blocks`;

/** The next row from each place on: each is found without reading what lies before it. */
function atPlaces(live: string): string {
  return `SELECT sample."key" FROM unnest($2::tid[]) WITH ORDINALITY AS place("at", "nth"),
    LATERAL (${live} AND t.ctid >= place."at" LIMIT 1) AS sample ORDER BY place."nth"`;
}

/** Up to `most` whole numbers from 0 to below `count`, the first and the last among them, the same distance apart. */
function spread(count: number, most: number): number[] {
  const step = (count - 1) / Math.max(1, most - 1);
  return [...new Set(Array.from({ length: Math.min(most, count) }, (_, at) => Math.floor(at * Math.max(step, 1))))];
}

function placeOf({ schema }: Database, table: TableShape): string {
  return `${escapeIdentifier(schema)}.${escapeIdentifier(table.name)}`;
}
