import type { JsonValue } from '../model/json.ts';
import type { Lane } from '../model/words.ts';

/** What the governor learns from one answer; header names are lower case, repeated headers are arrays. */
export interface AnswerFacts {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body where there is one: some services say "throttled" only there. */
  body: JsonValue | undefined;
  /** Local epoch milliseconds at which the answer's headers arrived. */
  receivedAt: number;
  /** Milliseconds from sending the request to the answer's headers. */
  latencyMs: number;
  /** True where the outcome table reads this answer as `limited`. */
  limited: boolean;
}

/** One attempt's result; `facts` is null where no answer came. */
export interface Attempted<T> {
  result: T;
  facts: AnswerFacts | null;
}

/** For the progress line, the demo and the status: plain counters since the start, and where the budget stands. */
export interface GovernorFigures {
  requests: number;
  limited: number;
  /** Requests per second that the service is understood to allow; null while nothing is known. */
  allowedPerSecond: number | null;
  /** Part of what was allowed since the start that was used, 0..1; null while nothing is known. */
  shareUsed: number | null;
  /** Local epoch milliseconds until which nothing is sent; null when open. */
  pausedUntil: number | null;
  /** Rate headers that could not be read and were ignored. */
  malformedHeaders: number;
}

/** The rate-aware queue of one origin and credential. */
export interface Governor {
  /**
   * Runs `attempt` once a slot in the lane opens and the budget allows a request; every attempt takes one.
   * Throws `DeferredError` when the service asks for a wait beyond `max_wait`, and the signal's reason on abort.
   */
  run<T>(lane: Lane, attempt: () => Promise<Attempted<T>>, signal?: AbortSignal): Promise<T>;
  figures(): GovernorFigures;
  /** What must survive a restart, as JSON text for `_sync_limits`. */
  state(): string;
  close(): void;
}
