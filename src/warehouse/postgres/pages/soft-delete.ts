import { escapeIdentifier } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import type { HistoryPolicy } from '../../../model/vocabulary.ts';
import type { SoftDelete, Purge } from '../../warehouse.ts';
import { deleteStatement } from './row-statements.ts';
import type { Session } from '../connection/session.ts';

interface DeletedRow extends Record<string, unknown> {
  key: string;
  version: number;
  hash: string;
}

const DELETED = `unnest($2::text[], $3::bigint[], $4::text[], $5::timestamp[]) AS b("id", "version", "hash", "at")`;

/**
 * A version that says so: one of its own if all are kept, else the latest one becomes it and keeps its body. Parameters:
 * the resource, then the deleted rows, column by column.
 */
const REMEMBER: Readonly<Record<HistoryPolicy, readonly string[]>> = {
  none: [],
  latest: [
    `UPDATE "_sync_versions" AS v SET "version" = b."version", "valid_from" = b."at", "op" = 'delete' FROM ${DELETED}
     WHERE v."resource" = $1 AND v."id" = b."id"`,
  ],
  all: [
    `UPDATE "_sync_versions" AS v SET "valid_to" = b."at" FROM ${DELETED}
     WHERE v."resource" = $1 AND v."id" = b."id" AND v."valid_to" IS NULL`,
    `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash")
     SELECT $1::text, b."id", b."version", b."at", 'delete', b."hash" FROM ${DELETED}`,
  ],
};

/**
 * Marks live rows as deleted and takes their child rows away; the record's body stays in its version. Returns the keys
 * of those that were live. Runs inside the caller's transaction.
 */
export async function softDelete(session: Session, deletion: SoftDelete): Promise<string[]> {
  const { resource, history, table, children, gone } = deletion;
  const confirmed = new Map(gone.map(({ key, confirmedAt }) => [key, confirmedAt]));
  const { rows } = await session.execute<DeletedRow>(markText(table), [[...confirmed.keys()], [...confirmed.values()]]);
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
