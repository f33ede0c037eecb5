/** Plain figures of the governor, for the line below the resources. */
export interface GovernorProgress {
  requests: number;
  /** Answers with the outcome "too many requests". */
  limited: number;
  /** Requests per second that the service allows; null while nothing is known. */
  allowedPerSecond: number | null;
  /** Part of what was allowed since the start that was used, 0..1; null while nothing is known. */
  shareUsed: number | null;
  /** Milliseconds for which nothing may be sent; 0 when open. */
  pausedForMs: number;
}

/** Progress of one resource at a moment. */
interface Sample {
  /** Monotonic milliseconds. */
  at: number;
  records: number;
  requests: number;
}

/** Progress of one resource's walk. `state` is free text for the end of its line: `ok`, `failed`, ... */
export interface ResourceProgress {
  resource: string;
  /** Records of the whole walk, those before a resume included. */
  records: number;
  /** Records in all, by the service; null if it does not say. */
  total: number | null;
  pages: number;
  /** Requests of this run, retries included. */
  requests: number;
  /** Where this run's walk began; null before. */
  began: Sample | null;
  /** Monotonic milliseconds; null while it is under way. */
  endedAt: number | null;
  state: string;
  /** What it waits for, in place of the time left; null while it goes on. */
  note: string | null;
  /** The last moments, oldest first, for the rates. */
  recent: readonly Sample[];
}

/** All that a display needs at one moment. */
export interface ProgressSnapshot {
  /** Monotonic milliseconds. */
  at: number;
  resources: readonly ResourceProgress[];
  governor: GovernorProgress;
}

/** Counts of a walk in progress: totals so far, not differences. */
export interface ProgressUpdate {
  records: number;
  pages: number;
  requests: number;
  total: number | null;
}

export interface Rates {
  recordsPerSecond: number;
  requestsPerSecond: number;
  /** 0..1; null without a total. */
  done: number | null;
  /** Null without a total, or while nothing moves. */
  etaSeconds: number | null;
}

/** The rates are those of the last ten seconds, so that a pause shows and a slow start is forgotten. */
const WINDOW_MS = 10_000;
const MAX_SAMPLES = 200;

/** A resource before its walk. */
export function waitingResource(resource: string): ResourceProgress {
  const none = { records: 0, total: null, pages: 0, requests: 0, began: null, endedAt: null, note: null };
  return { resource, ...none, state: 'waiting', recent: [] };
}

/** The resource at the beginning of its walk, which may resume an earlier one. */
export function startResource(progress: ResourceProgress, at: number, update: ProgressUpdate): ResourceProgress {
  const began = sampleOf(at, update);
  return {
    ...progress,
    ...update,
    total: totalOf(update),
    began,
    endedAt: null,
    note: null,
    state: 'running',
    recent: [began],
  };
}

/** The resource after a page. */
export function advanceResource(progress: ResourceProgress, at: number, update: ProgressUpdate): ResourceProgress {
  const samples = [...progress.recent, sampleOf(at, update)].slice(-MAX_SAMPLES);
  // The last sample before the window stays: the rate is to cover all of the window.
  const inWindow = samples.findIndex((sample) => sample.at >= at - WINDOW_MS);
  return {
    ...progress,
    ...update,
    total: totalOf(update),
    note: null,
    recent: samples.slice(Math.max(0, inWindow - 1)),
  };
}

/** The resource when its walk is over; from here on its rates are those of the whole walk. */
export function endResource(progress: ResourceProgress, at: number, state: string): ResourceProgress {
  return { ...progress, endedAt: at, note: null, state, recent: progress.began === null ? [] : [progress.began] };
}

/** Rates, part done and time left at the moment `at` (monotonic milliseconds). */
export function ratesOf(progress: ResourceProgress, at: number): Rates {
  const [oldest] = progress.recent;
  const seconds = oldest === undefined ? 0 : Math.max((progress.endedAt ?? at) - oldest.at, 1) / 1_000;
  const perSecond = (count: number, before: number): number => (seconds === 0 ? 0 : (count - before) / seconds);
  const recordsPerSecond = perSecond(progress.records, oldest?.records ?? 0);
  const { total, records } = progress;
  return {
    recordsPerSecond,
    requestsPerSecond: perSecond(progress.requests, oldest?.requests ?? 0),
    done: total === null ? null : total === 0 ? 1 : records / total,
    etaSeconds: total === null || recordsPerSecond <= 0 ? null : (total - records) / recordsPerSecond,
  };
}

function sampleOf(at: number, { records, requests }: ProgressUpdate): Sample {
  return { at, records, requests };
}

/** A total that the walk has passed is ignored. */
function totalOf({ records, total }: ProgressUpdate): number | null {
  return total !== null && total >= records ? total : null;
}
