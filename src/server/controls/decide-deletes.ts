import { ConfigError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { countText } from '../../observe/figures.ts';
import { discardSuspects, readSuspects, releaseSuspects } from '../../database/state/suspects.ts';
import { dismissWindows, readHeldWindows, releaseWindows } from '../../database/state/windows.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { SuspectRow } from '../../database/own-tables.ts';
import type { WarehouseReader } from '../../database/reading.ts';
import type { Warehouse } from '../../database/warehouse.ts';

/** A delete that waits, as it is shown. */
export interface WaitingDelete {
  resource: string;
  /** The record's; the first day of a window of reports. */
  id: string;
  state: SuspectRow['state'];
  /** `window`: the service's answer for a window of reports takes too much away. */
  reason: SuspectRow['reason'] | 'window';
  /** UTC text. */
  since: string;
  detail: string | null;
}

/** A decision, and its effect so far. */
export interface DecidedDeletes {
  resource: string;
  decision: 'confirm' | 'discard';
  /** Deletes that it was decided of. */
  count: number;
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

/** The deletes of a resource that wait for a person, or for the next run. */
export async function waitingDeletes(
  { own }: Pick<WarehouseReader, 'own'>,
  resource: string,
): Promise<WaitingDelete[]> {
  const suspects = await readSuspects(own, resource, ['held', 'open', 'released']);
  const deletes = suspects
    .filter(({ reason }) => reason !== 'older')
    .map(({ record_id: id, state, reason, found_at: since, detail }) => {
      return { resource, id, state, reason, since, detail };
    });
  return [...deletes, ...(await waitingWindows(own, resource))];
}

async function waitingWindows(own: WarehouseReader['own'], resource: string): Promise<WaitingDelete[]> {
  const held = await readHeldWindows(own, resource);
  return held.map(({ window_start: id, held_at: since, held: detail, released_at }) => {
    return { resource, id, state: released_at === null ? 'held' : 'released', reason: 'window', since, detail };
  });
}

/**
 * Stores what a person decides of deletes that wait; those that are confirmed are carried out by whoever owns the
 * resource. Throws `ConfigError('usage')` if one of the ids does not wait.
 */
export async function decideDeletes(
  warehouse: Warehouse,
  { source, resources, decision, ids }: DeleteDecision,
): Promise<DecidedDeletes[]> {
  const waiting = await Promise.all(resources.map((resource) => waitingDeletes(warehouse, resource)));
  const chosen = waiting.flat().filter(({ id }) => ids.length === 0 || ids.includes(id));
  refuseUnknown(ids, chosen, source);
  const decided: DecidedDeletes[] = [];
  for (const [resource, deletes] of Map.groupBy(chosen, (each) => each.resource)) {
    const [windows, keys] = [idsOf(deletes, true), idsOf(deletes, false)];
    const change = decision === 'confirm' ? releaseSuspects : discardSuspects;
    await warehouse.apply([
      ...change(warehouse.own, resource, keys),
      ...(decision === 'confirm'
        ? releaseWindows(warehouse.own, resource, windows, timestampText(await warehouse.now()))
        : dismissWindows(warehouse.own, resource, windows)),
    ]);
    const left = decision === 'confirm' && windows.length > 0 ? NEXT_RUN : null;
    decided.push({ resource, decision, count: deletes.length, deleted: 0, left });
  }
  return decided;
}

/** Nobody has kept the answer: the service is asked again. */
const NEXT_RUN = 'windows of reports are asked for by the next run, and what is answered then counts';

function idsOf(deletes: readonly WaitingDelete[], areWindows: boolean): string[] {
  return deletes.filter(({ reason }) => (reason === 'window') === areWindows).map(({ id }) => id);
}

function refuseUnknown(ids: readonly string[], chosen: readonly WaitingDelete[], source: string): void {
  const unknown = ids.filter((id) => !chosen.some((each) => each.id === id));
  if (unknown.length === 0) return;
  throw new ConfigError('usage', `no delete of ${unknown.join(', ')} waits in source ${source}`, {
    hint: 'content-sync deletes list shows those that do',
  });
}

/** Decisions for a person, a line per resource. */
export function decidedText(decided: readonly DecidedDeletes[]): string {
  return decided.length === 0 ? 'no deletes wait' : decided.map(sentence).map(visibleText).join('\n');
}

function sentence({ resource, decision, count, deleted, left }: DecidedDeletes): string {
  if (decision === 'discard') return `${resource}: ${countText(count)} forgotten, their rows stay live`;
  const done = `${resource}: ${countText(count)} confirmed, ${countText(deleted)} deleted by now`;
  return left === null ? done : `${done}; the rest will be by the process at work, or by the next run: ${left}`;
}
