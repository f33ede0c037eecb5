import { randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted, waitAtMost } from '../../model/waiting.ts';
import type { Coordination, StoredControl } from '../../database/coordination.ts';
import { openCoordination } from '../../database/databases.ts';
import {
  type Control,
  type ControlRequest,
  controlRequestSchema,
  failed as failedAnswer,
} from '../controls/control-request.ts';

export interface TakeControlsOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Names in the queue of the sources that this process works on. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called with every request for one of the sources, whoever leads it. */
  heard: (source: string, request: ControlRequest) => void;
  /** Carries out a request if this process leads the source; null if it does not. */
  leaderOf: (source: string) => { name: string; control: Control } | null;
  /** Called with each error; the next look tries again. */
  failed: (error: unknown) => void;
}

const LOOK_MS = 1_000;
const BEAT_MS = 5_000;
const STOP_MS = 2_000;

/** Looks for what commands on other machines ask, and does it where this process leads the source. */
export function takeControls(options: TakeControlsOptions): { stop(): Promise<void> } {
  const { address, sources, clock, heard, leaderOf, failed } = options;
  const stopping = new AbortController();
  const owner = randomUUID();
  let known: ReadonlySet<string> = new Set();
  let taken = new Set<string>();
  const underWay = new Set<Promise<void>>();
  let coordination: Coordination | null = null;
  const begin = (post: Coordination, stored: StoredControl): void => {
    const request = requestIn(stored);
    if (!known.has(stored.id) && request !== null) heard(stored.source, request);
    const leader = leaderOf(stored.source);
    if (request === null || leader === null || taken.has(stored.id)) return;
    taken.add(stored.id);
    const told = carryOut({ post, owner, clock }, stored, named(request, leader.name), leader.control)
      .catch(failed)
      .finally(() => underWay.delete(told));
    underWay.add(told);
  };
  const looked = repeatUntilAborted({ clock, everyMs: LOOK_MS, signal: stopping.signal, failed }, async () => {
    const names = sources();
    if (names.length === 0) return;
    coordination ??= await openCoordination(address, clock);
    if (coordination === null) return;
    const recent = await coordination.recentControls(names);
    for (const stored of recent) begin(coordination, stored);
    // Older ones do not come again.
    known = new Set(recent.map(({ id }) => id));
    taken = taken.intersection(known);
  });
  return {
    stop: async () => {
      stopping.abort();
      // Walks that were asked for have ended by now, and their reports are on their way.
      await waitAtMost(clock, STOP_MS, Promise.all([looked, ...underWay]));
      await coordination?.close();
    },
  };
}

/** A source may have another name in the settings of the one who asks. */
function named(request: ControlRequest, source: string): ControlRequest {
  return 'source' in request ? { ...request, source } : request;
}

function requestIn({ request }: StoredControl): ControlRequest | null {
  return controlRequestSchema.safeParse(JSON.parse(request)).data ?? null;
}

interface Carrying {
  post: Coordination;
  owner: string;
  clock: Clock;
}

async function carryOut(
  { post, owner, clock }: Carrying,
  { id, by }: StoredControl,
  request: ControlRequest,
  control: Control,
): Promise<void> {
  if (!(await post.takeControl(id, owner))) return;
  const ended = new AbortController();
  const tell = (told: { answer?: object; report?: object | null; isEnded: boolean }): Promise<void> =>
    post.tellControl(id, { answer: textOf(told.answer), report: textOf(told.report), isEnded: told.isEnded });
  // A command that waits is told that somebody is still at it.
  const beating = repeatUntilAborted({ clock, everyMs: BEAT_MS, signal: ended.signal }, () => tell({ isEnded: false }));
  try {
    const { answer, report } = await control(request, { via: 'database', by });
    await tell({ answer, isEnded: report === null });
    if (report !== null) await tell({ report: await report, isEnded: true });
  } catch (error) {
    await tell({ answer: failedAnswer(error), isEnded: true });
  } finally {
    ended.abort();
    await beating;
  }
}

function textOf(value: object | null | undefined): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}
