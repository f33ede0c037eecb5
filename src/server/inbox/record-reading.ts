// Fetches a record for the events that name it, and decides whether the response is new enough for each of them: a replica
// or a cache of the service may still return the record as it was before the event.
import { type Expectation, type ExpectedRecord, isBefore, type RefetchOutcome } from '../../sync/refetch.ts';
import type { KeyedWork } from './paced-work.ts';
import type { PendingTarget } from './delivery-progress.ts';

/**
 * After this many readings a record older than its event is accepted: by then a replica has caught up, and a clock that
 * is ahead never will.
 */
const MAX_READINGS = 6;

const AHEAD_REMARK =
  'the event names a later time than the record had at every reading; the record was accepted as the service has it [ahead]';

const CACHED_REMARK =
  'at every reading a cache in front of the service returned a copy from before the event; that copy was accepted [cached]';

/** Reads a record again (`sync/refetch.ts`). */
export type Refetch = (resource: string, key: string, expected: Expectation) => Promise<RefetchOutcome>;

export interface RecordReading {
  outcome: RefetchOutcome;
  /** Targets whose event is later than the record that was read: it is read again for them. */
  stale: readonly PendingTarget[];
}

/**
 * Reads a record for the targets in `served`. Targets that came after this began, but before the request was sent, are
 * added to `served`: the response is new enough for them too.
 */
export async function readRecord(
  work: KeyedWork,
  served: PendingTarget[],
  refetch: Refetch,
  maxAttempts: number,
): Promise<RecordReading> {
  let stale: readonly PendingTarget[] = [];
  const outcome = await refetch(work.resource, work.key, (requestedAt, updated) => {
    for (const later of work.waiting.splice(0)) (later.addedAt < requestedAt ? served : work.waiting).push(later);
    const comparison = compareWithEvents(served, { requestedAt, updated }, maxAttempts);
    stale = comparison.stale;
    return comparison.expected;
  });
  return { outcome, stale };
}

/** Compares the record with the time of each event separately, so that none delays another one. */
function compareWithEvents(
  served: readonly PendingTarget[],
  { requestedAt, updated }: { requestedAt: number; updated: number | null },
  maxAttempts: number,
): { expected: ExpectedRecord; stale: readonly PendingTarget[] } {
  const isLast = ({ delivery }: PendingTarget): boolean => delivery.attempts >= Math.min(maxAttempts, MAX_READINGS) - 1;
  // A cache stored the response before the delivery arrived. The receiver's clock may be ahead of this machine's.
  const isCached = ({ addedAt, delivery }: PendingTarget): boolean =>
    requestedAt < Math.min(addedAt, delivery.receivedAt);
  const isOlder = ({ target }: PendingTarget): boolean =>
    target.updated !== null && updated !== null && isBefore(updated, target.updated);
  const suspicious = served.filter((one) => isCached(one) || isOlder(one));
  const isAccepted = (one: PendingTarget): boolean =>
    isCached(one) ? one.delivery.attempts >= maxAttempts - 1 : isLast(one);
  for (const one of suspicious.filter(isAccepted)) one.delivery.remark = isCached(one) ? CACHED_REMARK : AHEAD_REMARK;
  const stale = suspicious.filter((one) => !isAccepted(one));
  // If any event is ahead of it, the record may come from a lagging replica: then it must not make the row older.
  const mayBeStale = suspicious.length > 0 && stale.length < served.length;
  const times = mayBeStale ? [] : served.filter((one) => !isLast(one)).map(({ target }) => target.updated ?? -Infinity);
  const after = Math.max(...times);
  const isDelete = served.some(({ target }) => target.isDelete);
  const expected = { after: Number.isFinite(after) ? after : null, isDelete, isLastTry: served.every(isLast) };
  return { expected, stale };
}
