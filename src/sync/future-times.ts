import { sql, type CompiledQuery } from 'kysely';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { durationText } from '../observe/figures.ts';
import { NO_WALK } from '../database/state/checkpoints.ts';
import type { OwnedResource } from '../database/state/owned-resource.ts';
import type { OwnTables, RunRow } from '../database/own-tables.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { Warning } from './warnings.ts';

/** The clocks of machines that share a database may differ by this much. */
export const CLOCK_SKEW_MS = 60_000;

/** Our own times of a resource that are compared with the clock, or by which rows are ordered. */
const OWN_TIMES: Partial<Record<keyof OwnTables, readonly string[]>> = {
  _sync_runs: ['started_at', 'finished_at', 'first_started_at'],
  _sync_checkpoints: ['last_success_at', 'last_full_at', 'unproved_at', 'unproved_full_at'],
  _sync_suspects: ['found_at', 'evidence_at'],
  _sync_versions: ['valid_from', 'valid_to'],
  _sync_deletes: ['deleted_at', 'restored_at'],
  _sync_schema_changes: ['changed_at'],
  _sync_verifications: ['began_at', 'ended_at'],
};

/**
 * Moves times that earlier runs of the resource wrote while the clock was ahead to just before now. Otherwise those runs
 * would count as the newest ones, and their rows as too new to be deleted, until the clock gets there. A scan that was
 * interrupted begins again, and open suspects of deletes are found again: moved times have lost their order.
 */
export async function correctFutureTimes(
  warehouse: Pick<Warehouse, 'own' | 'rows' | 'apply'>,
  { resource, lease }: Pick<OwnedResource, 'resource' | 'lease'>,
  last: RunRow | null,
  now: number,
): Promise<Warning[]> {
  const aheadMs = last === null ? 0 : timestampMs(last.finished_at ?? last.started_at) - now;
  if (aheadMs < CLOCK_SKEW_MS) return [];
  const {
    own,
    rows: { named },
  } = warehouse;
  const [before, after] = [timestampText(now - 1_000), timestampText(now)];
  const moved = (table: string, column: string, ofResource = sql`"resource" = ${resource} AND`): CompiledQuery =>
    sql`UPDATE ${named(table)} SET ${sql.id(column)} = ${before} WHERE ${ofResource} ${sql.id(column)} > ${after}`.compile(
      own,
    );
  const checkpoint = own.selectFrom('_sync_checkpoints').select('due_at').where('resource', '=', resource);
  const dueAt = (await checkpoint.executeTakeFirst())?.due_at ?? null;
  const tables = own.selectFrom('_sync_columns').select('table_name').distinct();
  const roots = await tables.where('resource', '=', resource).where('table_path', '=', '[]').execute();
  // A shorter wait was stored by a machine whose clock is right.
  const isAhead = dueAt !== null && timestampMs(dueAt) > now + aheadMs;
  const waits = { due_at: isAhead ? timestampText(timestampMs(dueAt) - aheadMs) : dueAt };
  await warehouse.apply(
    [
      own.deleteFrom('_sync_seen').where('resource', '=', resource).where('walk_started_at', '>', after).compile(),
      own
        .updateTable('_sync_checkpoints')
        .set(NO_WALK)
        .where('resource', '=', resource)
        .where('walk_started_at', '>', after)
        .compile(),
      own
        .deleteFrom('_sync_suspects')
        .where('resource', '=', resource)
        .where('state', '=', 'open')
        .where('evidence_at', '>', after)
        .compile(),
      ...Object.entries(OWN_TIMES).flatMap(([table, columns]) => columns.map((column) => moved(table, column))),
      ...roots.flatMap(({ table_name }) =>
        ['_synced_at', '_deleted_at'].map((column) => moved(table_name, column, sql``)),
      ),
      own.updateTable('_sync_checkpoints').set(waits).where('resource', '=', resource).compile(),
    ],
    lease(),
  );
  return [
    {
      code: 'clock_was_ahead',
      message: `an earlier run ended ${durationText(aheadMs / 1_000)} in the future: its clock was ahead, or this one is behind; its times were moved to now`,
      hint: 'check the clocks of the machines that run content-sync (NTP)',
    },
  ];
}
