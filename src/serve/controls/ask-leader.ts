import { randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { unlessAborted } from '../../model/waiting.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import type { RunReport } from '../../sync/report.ts';
import type { ControlPost } from '../../warehouse/coordination.ts';
import { openCoordination, openWarehouseToRead, sharedDatabase } from '../../warehouse/databases.ts';
import { answerSchema, gone, isReport, type ServeDoor } from './ask-socket.ts';
import type { AskElsewhere, WalkNews } from './controlled-source.ts';
import type { ControlAnswer, ControlRequest } from './control-request.ts';
import type { WalkFollower } from './create-controls.ts';
import { originText } from './answers.ts';

interface LeaderPlace {
  /** The warehouse of the source. */
  warehouse: string;
  clock: Clock;
  /** Who asks. */
  by: string | null;
}

/** How often an answer and a walk's progress are looked for. */
const LOOK_MS = 500;
/** Processes look for requests every second. */
const PATIENCE_MS = 20_000;

/**
 * The process that leads a source, on whatever machine, by way of the database that they share; null if none does, or
 * if one process does all the work. Throws what the database throws.
 */
export async function findLeader(place: LeaderPlace): Promise<ServeDoor | null> {
  const namespace = sharedDatabase(place.warehouse)?.namespace;
  const isLed = namespace !== undefined && (await withPost(place, (post) => post.isLed(namespace)));
  return isLed ? { ask: (request, follower) => askLeader(place, request, follower) } : null;
}

/** Passes on what another process must do; null for a source that no other process can lead. */
export function askElsewhere(warehouse: string, clock: Clock): AskElsewhere | null {
  if (sharedDatabase(warehouse) === null) return null;
  return async (request, origin) => {
    const answered = Promise.withResolvers<ControlAnswer>();
    const follower = { answered: answered.resolve, news: () => undefined, signal: new AbortController().signal };
    const asked = askLeader({ warehouse, clock, by: originText(origin) }, request, follower);
    asked.then(({ answer }) => answered.resolve(answer), answered.reject);
    const report = asked.then((end): RunReport => {
      if (end.report === null) throw gone();
      return end.report;
    });
    report.catch(() => undefined);
    const answer = await answered.promise;
    return { answer, report: request.action === 'sync' && answer.done ? report : null };
  };
}

async function askLeader(
  place: LeaderPlace,
  request: ControlRequest,
  follower: WalkFollower,
): Promise<{ answer: ControlAnswer; report: RunReport | null }> {
  const { warehouse, clock, by } = place;
  const source = sharedDatabase(warehouse)?.namespace ?? '';
  const id = randomUUID();
  return withPost(place, async (post) => {
    await post.putControl({ id, source, request: JSON.stringify(request), by });
    const answer = await answerOf(post, id, clock, follower.signal);
    follower.answered(answer);
    if (request.action !== 'sync' || !answer.done) return { answer, report: null };
    return { answer, report: await reportOf(post, id, place, request, follower) };
  });
}

async function answerOf(post: ControlPost, id: string, clock: Clock, signal: AbortSignal): Promise<ControlAnswer> {
  const until = clock.monotonic() + PATIENCE_MS;
  while (clock.monotonic() < until) {
    await clock.sleep(LOOK_MS, signal);
    const told = (await post.readControl(id))?.answer ?? null;
    if (told !== null) return answerSchema.parse(JSON.parse(told));
  }
  throw new SyncError('serve_silent', 'no process that leads the source has taken the request', {
    recovery: 'retry',
    hint: 'see whether `serve` runs, and whether it is of the same version; then run the same command again',
  });
}

async function reportOf(
  post: ControlPost,
  id: string,
  { warehouse, clock }: LeaderPlace,
  { resource }: { resource?: string | undefined },
  { news, signal }: { news: (news: WalkNews) => void; signal: AbortSignal },
): Promise<RunReport | null> {
  const reader = await openWarehouseToRead(warehouse, clock).catch(() => null);
  try {
    for (;;) {
      const told = await unlessAborted(post.readControl(id), signal);
      const report: unknown = told?.report === null || told === null ? null : JSON.parse(told.report);
      if (told?.isEnded === true) return isReport(report) ? report : null;
      if (told?.isHeard !== true) throw gone();
      const stored = reader === null || resource === undefined ? null : await readCheckpoint(reader.own, resource);
      const walk = stored === null || resource === undefined ? null : newsOf(resource, stored);
      if (walk !== null) news(walk);
      await clock.sleep(LOOK_MS, signal);
    }
  } finally {
    await reader?.close();
  }
}

type StoredWalk = NonNullable<Awaited<ReturnType<typeof readCheckpoint>>>;

/** A walk that is under way as its pages are stored; null if none is. */
export function newsOf(resource: string, stored: StoredWalk): WalkNews | null {
  const { walk_records: records, walk_pages: pages, walk_total: total, walk_mode: mode } = stored;
  return mode === null ? null : { resource, mode, records, pages, requests: 0, total, governor: null };
}

async function withPost<T>({ warehouse, clock }: LeaderPlace, work: (post: ControlPost) => Promise<T>): Promise<T> {
  const coordination = await openCoordination(warehouse, clock);
  if (coordination === null) throw new Error('one process does all the work on this database');
  try {
    return await work(coordination);
  } finally {
    await coordination.close();
  }
}
