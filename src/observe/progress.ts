// Progress of the scans of a run: counts, rates and remaining time, for the terminal and the status page.

/** Counters of the rate limiter, for the line below the resources. */
export interface RateLimiterProgress {
  requests: number;
  /** Responses with 429. */
  limited: number;
  /** Requests per second that the service allows; null while unknown. */
  allowedPerSecond: number | null;
  /** Milliseconds until the next request may be sent. */
  pausedForMs: number;
}

interface Sample {
  /** Monotonic milliseconds. */
  at: number;
  records: number;
  requests: number;
}

/** Progress of the scan of one resource. `state` is free text for the end of its line: `ok`, `failed`, ... */
export interface ResourceProgress {
  resource: string;
  /** Records of the whole scan, also those before a resume. */
  records: number;
  /** Total by the service; null if it reports none. */
  total: number | null;
  pages: number;
  /** Requests of this run, retries included. */
  requests: number;
  /** Where the scan of this run began; null before. */
  began: Sample | null;
  /** Monotonic milliseconds; null while it is in progress. */
  endedAt: number | null;
  state: string;
  /** What it waits for, shown instead of the remaining time; null while it is not waiting. */
  note: string | null;
  /** Recent samples for the rates, oldest first. */
  recent: readonly Sample[];
}

/** What a display needs. */
export interface ProgressSnapshot {
  /** Monotonic milliseconds. */
  at: number;
  resources: readonly ResourceProgress[];
  rateLimiter: RateLimiterProgress;
}

/** Totals of a scan in progress, not differences. */
export interface ProgressUpdate {
  records: number;
  pages: number;
  requests: number;
  total: number | null;
}

/** Rates cover ten seconds, so that a pause is visible and a slow start is forgotten. */
const WINDOW_MS = 10_000;
const MAX_SAMPLES = 200;

/** A resource before its scan. */
export function waitingResource(resource: string): ResourceProgress {
  const none = { records: 0, total: null, pages: 0, requests: 0, began: null, endedAt: null, note: null };
  return { resource, ...none, state: 'waiting', recent: [] };
}

/** The resource at the start of a scan, which may resume an earlier one. */
export function startResource(progress: ResourceProgress, at: number, update: ProgressUpdate): ResourceProgress {
  const began = toSample(at, update);
  return {
    ...progress,
    ...update,
    total: plausibleTotal(update),
    began,
    endedAt: null,
    note: null,
    state: 'running',
    recent: [began],
  };
}

/** The resource after a page. */
export function advanceResource(progress: ResourceProgress, at: number, update: ProgressUpdate): ResourceProgress {
  const samples = [...progress.recent, toSample(at, update)].slice(-MAX_SAMPLES);
  // The last sample before the window stays, so that the rate covers the whole window.
  const inWindow = samples.findIndex((sample) => sample.at >= at - WINDOW_MS);
  return {
    ...progress,
    ...update,
    total: plausibleTotal(update),
    note: null,
    recent: samples.slice(Math.max(0, inWindow - 1)),
  };
}

/** The resource after its scan; its rates are those of the whole scan. */
export function endResource(progress: ResourceProgress, at: number, state: string): ResourceProgress {
  return { ...progress, endedAt: at, note: null, state, recent: progress.began === null ? [] : [progress.began] };
}

/** Computes rates, progress (0..1) and remaining time at `at` (monotonic ms); the latter two are null without a total. */
export function computeRates(progress: ResourceProgress, at: number) {
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

function toSample(at: number, { records, requests }: ProgressUpdate): Sample {
  return { at, records, requests };
}

/** Ignores a total that the scan has passed. */
function plausibleTotal({ records, total }: ProgressUpdate): number | null {
  return total !== null && total >= records ? total : null;
}
