import type { CompiledQuery, Kysely } from 'kysely';
import { z } from 'zod';
import { timestampText } from '../model/timestamp-text.ts';
import { OUTCOMES } from '../model/vocabulary.ts';
import type { OwnTables } from '../warehouse/own-tables.ts';
import type { RunRow } from '../warehouse/run-row.ts';
import type { OutcomeCounts, RunEnd, RunStart } from './runs.ts';

/**
 * The statements that write down how a run has ended. `before` is the row that its own takes in, if there is one that
 * says nothing else (`foldsWith`): both stand in one row from then on.
 */
export function endRun(
  own: Kysely<OwnTables>,
  run: RunStart,
  end: RunEnd,
  now: number,
  before: RunRow | null = null,
): CompiledQuery[] {
  const ended = own
    .updateTable('_sync_runs')
    .set({
      ...end.figures,
      mode: run.mode,
      status: end.status,
      finished_at: timestampText(now),
      error_code: end.error?.code ?? null,
      error: end.error?.message ?? null,
      error_hint: end.error?.hint ?? null,
      request_id: end.error?.request_id ?? null,
      warnings: warningsText(end),
      outcomes: JSON.stringify(end.outcomes),
      ...(before === null ? {} : foldedWith(before, end)),
    })
    .where('run_id', '=', run.run_id)
    .where('resource', '=', run.resource);
  return [...(before === null ? [] : [forgetRun(own, before)]), ended.compile()];
}

/** Adds to a run that has ended what came of something behind its walk; `warnings` are all of them. */
export function tellOfRun(
  own: Kysely<OwnTables>,
  run: Pick<RunStart, 'run_id' | 'resource'>,
  { status, warnings }: Pick<RunRow, 'status'> & Pick<RunEnd, 'warnings'>,
): CompiledQuery {
  return own
    .updateTable('_sync_runs')
    .set({ status, warnings: warningsText({ warnings }) })
    .where('run_id', '=', run.run_id)
    .where('resource', '=', run.resource)
    .compile();
}

function forgetRun(own: Kysely<OwnTables>, { run_id, resource }: RunRow): CompiledQuery {
  return own.deleteFrom('_sync_runs').where('run_id', '=', run_id).where('resource', '=', resource).compile();
}

function warningsText({ warnings }: Pick<RunEnd, 'warnings'>): string | null {
  return warnings.length === 0 ? null : JSON.stringify(warnings);
}

const CHANGES = ['inserted', 'updated', 'rejected', 'deleted', 'held'] as const;

/** True for a run that has ended well and changed nothing; what it warns of is accepted. */
export function isQuiet({ status, figures, warnings }: Pick<RunEnd, 'status' | 'figures' | 'warnings'>): boolean {
  const isAccepted = warnings.every(({ accepted }) => accepted === true);
  return status === 'ok' && isAccepted && CHANGES.every((name) => figures[name] === 0);
}

/** True if the row of a quiet run says nothing that is not said by that of the one before, but for times and sums. */
export function foldsWith(before: RunRow, run: RunStart, end: RunEnd): boolean {
  const isAlike = before.command === run.command && before.mode === run.mode && before.warnings === warningsText(end);
  return isAlike && before.status === 'ok' && CHANGES.every((name) => before[name] === 0);
}

/** What the row of a run is given that takes in the one before it. */
function foldedWith(before: RunRow, { figures, outcomes }: RunEnd): Partial<RunRow> {
  return {
    runs: before.runs + 1,
    first_started_at: before.first_started_at ?? before.started_at,
    all_requests: (before.all_requests ?? before.requests) + figures.requests,
    all_bytes: (before.all_bytes ?? before.bytes) + figures.bytes,
    outcomes: JSON.stringify(sumOf(outcomesOf(before), outcomes)),
  };
}

/** Attempts of all runs of a row by outcome; empty if they were not counted. */
export function outcomesOf({ outcomes }: Pick<RunRow, 'outcomes'>): OutcomeCounts {
  return outcomes === null ? {} : outcomeCounts.parse(JSON.parse(outcomes));
}

const outcomeCounts = z.partialRecord(z.enum(OUTCOMES), z.number());

function sumOf(one: OutcomeCounts, other: OutcomeCounts): OutcomeCounts {
  const both = OUTCOMES.map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)] as const);
  return Object.fromEntries(both.filter(([, count]) => count > 0));
}
