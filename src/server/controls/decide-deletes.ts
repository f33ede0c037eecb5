// Lists deletes that wait for a user, and stores the user's decision about them.
import { ConfigError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { formatNumber } from '../../observe/format-values.ts';
import { dismissDeletes, readDeleteCandidates, releaseDeletes } from '../../database/state/suspects.ts';
import { dismissWindows, readHeldWindows, releaseWindows } from '../../database/state/windows.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, DeleteCandidateRow } from '../../database/own-tables.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Kysely } from 'kysely';

export interface WaitingDelete {
  resource: string;
  /** Of the record; for a window of reports its first day. */
  id: string;
  state: DeleteCandidateRow['state'];
  /** `window`: the service's answer for a window of reports would delete too much. */
  reason: DeleteCandidateRow['reason'] | 'window';
  /** UTC text. */
  since: string;
  detail: string | null;
}

/** A decision, and its effect so far. */
export interface DecidedDeletes {
  resource: string;
  decision: 'confirm' | 'discard';
  /** Deletes that it applies to. */
  count: number;
  /** Rows that were deleted by now. */
  deleted: number;
  /** Why it is not carried out yet; null if it is. */
  left: string | null;
}

export interface DeleteDecision {
  /** For messages. */
  source: string;
  resources: readonly string[];
  decision: DecidedDeletes['decision'];
  /** Only these records; all that wait if empty. */
  ids: readonly string[];
}

/** The deletes of a resource that wait for a user, or for the next run. */
export async function waitingDeletes({ own }: { own: Kysely<OwnTables> }, resource: string): Promise<WaitingDelete[]> {
  const suspects = await readDeleteCandidates(own, resource, ['held', 'open', 'released']);
  const windows = await readHeldWindows(own, resource);
  return [
    ...suspects
      .filter(({ reason }) => reason !== 'older')
      .map(({ record_id: id, state, reason, found_at: since, detail }) => {
        return { resource, id, state, reason, since, detail };
      }),
    ...windows.map(({ window_start: id, held_at: since, held: detail, released_at }): WaitingDelete => {
      const state = released_at === null ? 'held' : 'released';
      return { resource, id, state, reason: 'window', since, detail };
    }),
  ];
}

/** No process has stored the response that was held: the windows are requested again. */
const NEXT_RUN = 'the next run requests the windows of reports again, and accepts the answer';

/**
 * Stores a user's decision about deletes that wait; confirmed ones are carried out by the process that owns the resource.
 * Throws `ConfigError('usage')` if one of the ids does not wait.
 */
export async function decideDeletes(
  warehouse: Warehouse,
  { source, resources, decision, ids }: DeleteDecision,
): Promise<DecidedDeletes[]> {
  const { own } = warehouse;
  const waiting = await Promise.all(resources.map((resource) => waitingDeletes(warehouse, resource)));
  const chosen = waiting.flat().filter(({ id }) => ids.length === 0 || ids.includes(id));
  const unknown = ids.filter((id) => !chosen.some((each) => each.id === id));
  if (unknown.length > 0) {
    throw new ConfigError('usage', `no delete of ${unknown.join(', ')} waits in source ${source}`, {
      hint: 'content-sync deletes list shows those that do',
    });
  }
  const decided: DecidedDeletes[] = [];
  for (const [resource, deletes] of Map.groupBy(chosen, (each) => each.resource)) {
    const windows = deletes.flatMap(({ reason, id }) => (reason === 'window' ? [id] : []));
    const records = deletes.flatMap(({ reason, id }) => (reason === 'window' ? [] : [id]));
    const isConfirmed = decision === 'confirm';
    await warehouse.apply([
      ...(isConfirmed ? releaseDeletes : dismissDeletes)(own, resource, records),
      ...(isConfirmed
        ? releaseWindows(own, resource, windows, timestampText(await warehouse.now()))
        : dismissWindows(own, resource, windows)),
    ]);
    const left = isConfirmed && windows.length > 0 ? NEXT_RUN : null;
    decided.push({ resource, decision, count: deletes.length, deleted: 0, left });
  }
  return decided;
}

/** Decisions for a user, a line per resource. */
export function decidedText(decided: readonly DecidedDeletes[]): string {
  const lines = decided.map(({ resource, decision, count, deleted, left }) => {
    if (decision === 'discard') return `${resource}: ${formatNumber(count)} forgotten, their rows stay live`;
    const done = `${resource}: ${formatNumber(count)} confirmed, ${formatNumber(deleted)} deleted by now`;
    return left === null ? done : `${done}; a running process or the next run deletes the rest: ${left}`;
  });
  return lines.length === 0 ? 'no deletes wait' : lines.map(visibleText).join('\n');
}
