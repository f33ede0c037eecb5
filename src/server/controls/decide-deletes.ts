// Lists deletes that wait for a user's decision, and stores the decision. Example: a full scan misses 1,870 of 2,000
// records. That may be an error of the service, so their rows stay live until a user confirms or discards the deletes.
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
  /** The id of the record; for a window of a report its first day. */
  id: string;
  /** `held`: waits for a user. `open`: not verified yet. `released`: confirmed, to be carried out. */
  state: DeleteCandidateRow['state'];
  /** `window`: the response for a window of a report would delete too many rows. */
  reason: DeleteCandidateRow['reason'] | 'window';
  /** When it was found, as UTC text. */
  since: string;
  detail: string | null;
}

/** A decision about the deletes of a resource, and its effect so far. */
export interface DecidedDeletes {
  resource: string;
  decision: 'confirm' | 'discard';
  /** Number of deletes that it applies to. */
  count: number;
  /** Number of rows that were deleted by now. */
  deleted: number;
  /** Why deletes are left to be carried out later; null if none are. */
  left: string | null;
}

export interface DeleteDecision {
  /** The name of the source, for messages. */
  source: string;
  resources: readonly string[];
  decision: DecidedDeletes['decision'];
  /** The ids of the chosen deletes; empty for all that wait. */
  ids: readonly string[];
}

/** Reads the deletes of a resource that wait for a user or for the next run. */
export async function readWaitingDeletes(
  { own }: { own: Kysely<OwnTables> },
  resource: string,
): Promise<WaitingDelete[]> {
  const candidates = await readDeleteCandidates(own, resource, ['held', 'open', 'released']);
  const windows = await readHeldWindows(own, resource);
  return [
    ...candidates
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

/** The response that was held was not stored, so the windows have to be requested again. */
const NEXT_RUN = 'the next run requests the windows of reports again, and accepts the response';

/**
 * Stores a user's decision. The process that owns the resource carries confirmed deletes out. Throws
 * `ConfigError('usage')` if no delete waits for one of the ids.
 */
export async function decideDeletes(
  warehouse: Warehouse,
  { source, resources, decision, ids }: DeleteDecision,
): Promise<DecidedDeletes[]> {
  const { own } = warehouse;
  const waiting = await Promise.all(resources.map((resource) => readWaitingDeletes(warehouse, resource)));
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

/** Formats decisions for a user, one line per resource. */
export function formatDecisions(decided: readonly DecidedDeletes[]): string {
  const lines = decided.map(({ resource, decision, count, deleted, left }) => {
    if (decision === 'discard') return `${resource}: ${formatNumber(count)} forgotten, their rows stay live`;
    const done = `${resource}: ${formatNumber(count)} confirmed, ${formatNumber(deleted)} deleted by now`;
    return left === null ? done : `${done}; a running process or the next run deletes the rest: ${left}`;
  });
  return lines.length === 0 ? 'no deletes wait' : lines.map(visibleText).join('\n');
}
