import { escapeIdentifier } from 'pg';
import type { TableRows, TableShape } from '../../../model/table.ts';
import type { HistoryPolicy } from '../../../model/vocabulary.ts';
import { oncePer } from '../../once-per.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { PageRows, WrittenRecord, SoftDelete, Purge } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import type { Session } from '../connection/session.ts';
import { copySteps } from './encode-page.ts';
import { byIndexes, deleteStatement, jsonCell, upsertStatement } from './row-statements.ts';

const upsertInto = oncePer(upsertStatement);
const deleteFrom = oncePer(deleteStatement);

/**
 * The statements that write a page, whose number does not depend on the number of rows: new rows are copied into the
 * tables, changed ones are upserted. If a transaction with the page has failed before (`isRepeated`), no row is assumed
 * to be new: another process may have written it since it was looked up.
 */
export function stepsOf(page: PageRows, isRepeated: boolean): Step[] {
  const [root] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const mayExist = ({ version }: WrittenRecord): boolean => isRepeated || version > 1;
  const known = page.records.filter(mayExist);
  const changed = (): Step[] => {
    const rows = page.records.flatMap((record, index) => (mayExist(record) ? [jsonRow(root, page, index)] : []));
    const keys = known.map(({ key }) => key);
    return [
      { text: upsertInto(root.table), values: [JSON.stringify(rows)] },
      ...page.children.map((child) => ({ text: deleteFrom(child), values: [keys] })),
    ];
  };
  return [
    ...byIndexes([...(known.length > 0 ? changed() : []), ...endVersions(page, isRepeated)]),
    ...copySteps(page, mayExist),
  ];
}

/** A row of a resource's own table, stamped. */
function jsonRow({ table, width, cells }: TableRows, page: PageRows, index: number): unknown[] {
  const [from, keys] = [index * width, table.key.length];
  const record = page.records[index];
  if (record === undefined) throw new Error('a row without its record');
  const stamps = stampedColumns(table).map(({ stamp }) => stamp(record, page));
  const source = cells.slice(from + keys, from + width);
  return [...cells.slice(from, from + keys), ...stamps, ...source].map(jsonCell);
}

const CLOSE = `UPDATE "_sync_versions" AS v SET "valid_to" = $2 FROM unnest($3::text[], $4::bigint[]) AS old("id", "version")
  WHERE v."resource" = $1 AND v."id" = old."id" AND v."version" = old."version"`;
const DROP = `DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)`;
const DROP_SAME = `DELETE FROM "_sync_versions" AS v USING unnest($2::text[], $3::bigint[]) AS same("id", "version")
  WHERE v."resource" = $1 AND v."id" = same."id" AND v."version" = same."version"`;

/**
 * Closes or drops the versions before those of the written records, as the history policy says; with `isRepeated` also
 * those that are there although they were thought to be new.
 */
function endVersions(page: PageRows, isRepeated: boolean): Step[] {
  const { resource, history, requestedAt, records } = page;
  if (history === 'none') return [];
  const replaced = records.filter(({ version }) => version > 1);
  const keys = keysOf(replaced);
  const before = versionsOf(replaced).map((version) => version - 1);
  const end =
    history === 'all'
      ? { text: CLOSE, values: [resource, requestedAt, keys, before] }
      : { text: DROP, values: [resource, keys] };
  return [
    ...(isRepeated ? [{ text: DROP_SAME, values: [resource, keysOf(records), versionsOf(records)] }] : []),
    ...(replaced.length === 0 ? [] : [end]),
  ];
}

function keysOf(records: readonly WrittenRecord[]): string[] {
  return records.map(({ key }) => key);
}

function versionsOf(records: readonly WrittenRecord[]): number[] {
  return records.map(({ version }) => version);
}

interface DeletedRow extends Record<string, unknown> {
  key: string;
  version: number;
  hash: string;
}

const DELETED = `unnest($2::text[], $3::bigint[], $4::text[], $5::timestamptz[]) AS b("id", "version", "hash", "at")`;

/**
 * A version that says so: one of its own if all are kept, else the latest one becomes it. It has no body. Parameters:
 * the resource, then the deleted rows, column by column.
 */
const REMEMBER: Readonly<Record<HistoryPolicy, readonly string[]>> = {
  none: [],
  latest: [
    `UPDATE "_sync_versions" AS v SET "version" = b."version", "valid_from" = b."at", "op" = 'delete', "body" = NULL, "source_text" = NULL FROM ${DELETED}
     WHERE v."resource" = $1 AND v."id" = b."id"`,
  ],
  all: [
    `UPDATE "_sync_versions" AS v SET "valid_to" = b."at" FROM ${DELETED}
     WHERE v."resource" = $1 AND v."id" = b."id" AND v."valid_to" IS NULL`,
    `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash")
     SELECT $1::text, b."id", b."version", b."at", 'delete', b."hash" FROM ${DELETED}`,
  ],
};

const NOTE_DELETES = `INSERT INTO "_sync_deletes" ("resource", "id", "version", "deleted_at")
  SELECT $1, gone.* FROM unnest($2::text[], $3::bigint[], $4::timestamptz[]) AS gone`;

/**
 * Marks live rows as deleted and takes their child rows away; what the record held stays in the versions before. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export async function softDelete(session: Session, deletion: SoftDelete): Promise<string[]> {
  const { resource, history, table, children, gone } = deletion;
  const confirmed = new Map(gone.map(({ key, confirmedAt }) => [key, confirmedAt]));
  const deleted = new Map(gone.map(({ key, confirmedAt, deletedAt }) => [key, deletedAt ?? confirmedAt]));
  const marked = [[...confirmed.keys()], [...confirmed.values()], [...deleted.values()]];
  const { rows } = await session.execute<DeletedRow>(markText(table), marked);
  const keys = rows.map(({ key }) => key);
  if (keys.length === 0) return keys;
  for (const child of children) await session.execute(deleteStatement(child), [keys]);
  const versions = rows.map(({ version }) => version);
  const hashes = rows.map(({ hash }) => hash);
  const moments = keys.map((key) => confirmed.get(key));
  for (const text of REMEMBER[history]) await session.execute(text, [resource, keys, versions, hashes, moments]);
  await session.execute(NOTE_DELETES, [resource, keys, versions, keys.map((key) => deleted.get(key))]);
  return keys;
}

/** Removes rows that were deleted long ago, and their versions. Runs inside the caller's transaction. */
export async function purge(session: Session, { resource, table, deletedBefore, limit }: Purge): Promise<number> {
  const { rows } = await session.execute<{ key: string }>(oldText(table), [deletedBefore, limit]);
  const keys = rows.map(({ key }) => key);
  await session.execute(deleteStatement(table), [keys]);
  await session.execute('DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)', [resource, keys]);
  await session.execute('DELETE FROM "_sync_deletes" WHERE "resource" = $1 AND "id" = ANY($2)', [resource, keys]);
  for (const table of ['"_sync_suspects"', '"_sync_files"']) {
    await session.execute(`DELETE FROM ${table} WHERE "resource" = $1 AND "record_id" = ANY($2)`, [resource, keys]);
  }
  return keys.length;
}

/** The guard leaves alone what was written after the service was asked. */
function markText(table: TableShape): string {
  const key = escapeIdentifier(table.key[0] ?? '');
  return `UPDATE ${escapeIdentifier(table.name)} AS t
    SET "_deleted_at" = gone."deleted", "_synced_at" = gone."at", "_version" = t."_version" + 1
    FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS gone("key", "at", "deleted")
    WHERE t.${key} = gone."key" AND t."_deleted_at" IS NULL AND t."_synced_at" <= gone."at"
    RETURNING t.${key} AS "key", t."_version" AS "version", t."_hash" AS "hash"`;
}

function oldText(table: TableShape): string {
  return `SELECT ${escapeIdentifier(table.key[0] ?? '')} AS "key" FROM ${escapeIdentifier(table.name)}
    WHERE "_deleted_at" < $1 ORDER BY "_deleted_at" LIMIT $2`;
}
