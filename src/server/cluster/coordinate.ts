import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Coordination, StoredControl } from '../../database/coordination.ts';
import { openCoordination } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted, waitAtMost } from '../../model/waiting.ts';
import {
  type Control,
  type ControlRequest,
  controlRequestSchema,
  failed as failedAnswer,
} from '../controls/control-request.ts';

interface LeadOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** The sources to lead if no other process leads them. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called after every renewal with the sources that this process leads now. */
  leads: (sources: ReadonlySet<string>) => void;
  /** Called with each error; the next renewal tries again. */
  failed: (error: unknown) => void;
}

/** A lead that is not renewed for this long goes to another process. */
const LEAD_MS = 20_000;
const RENEW_MS = 5_000;
/** This process considers its leads lost before another process can take them over. */
const LOST_MS = LEAD_MS - RENEW_MS;
const RESIGN_MS = 1_000;

/** Takes and renews the lead of all sources that no other process leads. Before `stop`, all work of the leader must have ended. */
export function keepLead({ address, sources, clock, leads, failed }: LeadOptions): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let coordination: Coordination | null = null;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const renew = async (): Promise<void> => {
    const requestedAt = clock.monotonic();
    coordination ??= await openCoordination(address, clock);
    const led = new Set((await coordination?.lead(sources(), owner, LEAD_MS)) ?? []);
    // A response that came this late may be out of date already.
    if (clock.monotonic() - requestedAt >= LOST_MS) return;
    renewedAt = requestedAt;
    leads(led);
  };
  const renewing = repeatUntilAborted({ clock, everyMs: RENEW_MS, signal: stopping.signal }, async () => {
    await renew().catch(failed);
    if (clock.monotonic() - renewedAt >= LOST_MS) leads(new Set());
  });
  return {
    stop: async () => {
      stopping.abort();
      await waitAtMost(clock, RESIGN_MS, renewing);
      // If the server is unreachable, the lead expires by itself.
      const resigned = coordination?.resign(owner).catch(() => undefined);
      await waitAtMost(clock, RESIGN_MS, Promise.resolve(resigned));
      await coordination?.close();
    },
  };
}

interface TakeControlsOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Names in the queue of the sources that this process works on. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called with every request for one of the sources, whichever process leads it. */
  heard: (source: string, request: ControlRequest) => void;
  /** Carries out a request if this process leads the source; null if it does not. */
  leaderOf: (source: string) => { name: string; control: Control } | null;
  /** Called with each error; the next poll tries again. */
  failed: (error: unknown) => void;
}

const POLL_MS = 1_000;
const HEARTBEAT_MS = 5_000;
const STOP_MS = 2_000;

/** Polls for requests of commands on other machines, and carries them out if this process leads the source. */
export function takeControls(options: TakeControlsOptions): { stop(): Promise<void> } {
  const { address, sources, clock, heard, leaderOf, failed } = options;
  const stopping = new AbortController();
  const owner = randomUUID();
  let known: ReadonlySet<string> = new Set();
  let taken = new Set<string>();
  const inProgress = new Set<Promise<void>>();
  let coordination: Coordination | null = null;
  const begin = (post: Coordination, stored: StoredControl): void => {
    const request = controlRequestSchema.safeParse(JSON.parse(stored.request)).data;
    if (request === undefined) return;
    if (!known.has(stored.id)) heard(stored.source, request);
    const leader = leaderOf(stored.source);
    if (leader === null || taken.has(stored.id)) return;
    taken.add(stored.id);
    // The source may have another name in the settings of the process that asks.
    const own = 'source' in request ? { ...request, source: leader.name } : request;
    const work = carryOut(post, owner, clock, stored, () => leader.control(own, { via: 'database', by: stored.by }))
      .catch(failed)
      .finally(() => inProgress.delete(work));
    inProgress.add(work);
  };
  const polling = repeatUntilAborted({ clock, everyMs: POLL_MS, signal: stopping.signal, failed }, async () => {
    const names = sources();
    if (names.length === 0) return;
    coordination ??= await openCoordination(address, clock);
    if (coordination === null) return;
    const recent = await coordination.recentControls(names);
    for (const stored of recent) begin(coordination, stored);
    known = new Set(recent.map(({ id }) => id));
    taken = taken.intersection(known);
  });
  return {
    stop: async () => {
      stopping.abort();
      // Requested syncs have ended by now, and their reports are being written.
      await waitAtMost(clock, STOP_MS, Promise.all([polling, ...inProgress]));
      await coordination?.close();
    },
  };
}

/** Carries out a request unless another process does, and writes its answer, its report and a heartbeat. */
async function carryOut(
  post: Coordination,
  owner: string,
  clock: Clock,
  { id }: StoredControl,
  control: () => ReturnType<Control>,
): Promise<void> {
  if (!(await post.takeControl(id, owner))) return;
  const ended = new AbortController();
  const write = (answer: object | null, report: object | null, isEnded: boolean): Promise<void> =>
    post.tellControl(id, { answer: toJson(answer), report: toJson(report), isEnded });
  const period = { clock, everyMs: HEARTBEAT_MS, signal: ended.signal };
  const beating = repeatUntilAborted(period, () => write(null, null, false));
  try {
    const { answer, report } = await control();
    await write(answer, null, report === null);
    if (report !== null) await write(null, await report, true);
  } catch (error) {
    await write(failedAnswer(error), null, true);
  } finally {
    ended.abort();
    await beating;
  }
}

function toJson(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}
