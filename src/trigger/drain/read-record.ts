import { isBefore, type ExpectedRecord, type RefetchOutcome } from '../../sync/refetch.ts';
import type { Work } from './coalesce.ts';
import type { DrainOptions } from './options.ts';
import type { Request, Ticket } from './ticket.ts';

/**
 * Readings after which the time that an event tells is no longer waited for: a replica has caught up by then, and a
 * clock that is ahead, or another record of the same id, never will.
 */
const MOST_READINGS = 6;

const AHEAD =
  'the event tells a later time than the record had whenever it was read: what the service has was taken [ahead]';

const KEPT =
  'whenever the record was read, a cache in front of the service gave what it had kept from before the event: that was taken [cached]';

/** The outcome of a reading, and the requests whose event is later than what was read: they wait for another one. */
export interface RecordReading {
  outcome: RefetchOutcome;
  behind: readonly Request[];
}

/** Reads a record for those who wait for it. What came while they waited for their turn is served as well. */
export async function readRecord(
  work: Work<Request>,
  served: Request[],
  { refetch, attempts }: Pick<DrainOptions, 'refetch' | 'attempts'>,
): Promise<RecordReading> {
  let behind: readonly Request[] = [];
  const outcome = await refetch(work.resource, work.key, (requestedAt, updated) => {
    const later = work.waiting.splice(0);
    for (const request of later) (request.askedAt < requestedAt ? served : work.waiting).push(request);
    const judged = judgeReading(served, { requestedAt, updated }, attempts);
    behind = judged.behind;
    return judged.event;
  });
  return { outcome, behind };
}

/** Judges what was read by the time that each event tells, so that none keeps another one waiting. */
function judgeReading(
  served: readonly Request[],
  { requestedAt, updated }: { requestedAt: number; updated: number | null },
  attempts: number,
): { event: ExpectedRecord; behind: readonly Request[] } {
  const isLast = ({ ticket }: Request): boolean => isLastReading(ticket, attempts);
  const isKept = (request: Request): boolean => isKeptFromBefore(request, requestedAt);
  const isOver = (request: Request): boolean =>
    isKept(request) ? request.ticket.attempts >= attempts - 1 : isLast(request);
  const ahead = served.filter((request) => isKept(request) || isAhead(request.target.updated, updated));
  const behind = ahead.filter((request) => !isOver(request));
  for (const request of ahead) if (isOver(request)) request.ticket.remark = isKept(request) ? KEPT : AHEAD;
  // While any event is ahead of it, what was read may be from a replica that lags, and makes no row older.
  const isDoubted = ahead.length > 0 && behind.length < served.length;
  const told = isDoubted ? [] : served.filter((request) => !isLast(request)).map(({ target }) => target.updated);
  const after = told.reduce<number | null>((latest, at) => (at === null ? latest : Math.max(latest ?? at, at)), null);
  const isDelete = served.some(({ target }) => target.isDelete);
  return { event: { after, isDelete, isLastTry: served.every(isLast) }, behind };
}

function isAhead(told: number | null, updated: number | null): boolean {
  return told !== null && updated !== null && isBefore(updated, told);
}

/** True of an answer that a cache had kept from before the delivery arrived. */
function isKeptFromBefore({ askedAt, ticket }: Request, requestedAt: number): boolean {
  // Another machine, whose clock may be ahead, may have received it.
  return requestedAt < Math.min(askedAt, ticket.receivedAt);
}

/** True for the reading that is believed, however old it looks. */
function isLastReading({ attempts: failed }: Ticket, attempts: number): boolean {
  return failed >= Math.min(attempts, MOST_READINGS) - 1;
}
