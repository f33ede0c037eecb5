// The types of the HTTP client of a source: what a caller requests, what it gets, and what is counted and logged.
// Every other folder that requests something from the service imports this file; `create-client.ts` creates the
// client.
import type { AnswerRule } from '../config/profile/request-fields.ts';
import type { JsonValue } from '../model/json.ts';
import type { Lane, Outcome } from '../model/vocabulary.ts';
import type { MemoryReservation } from './body/answer-memory.ts';
import type { BodySink } from './body/read-body.ts';

/** Counters that the caller passes in; they are valid also if the request fails. */
export interface RequestMeter {
  /** Attempts sent, retries included. */
  requests: number;
  retries: number;
  /** Answers that said "too many requests". */
  limited: number;
  /** Bytes of answers as received, before decompression. */
  bytes: number;
  /** Attempts by outcome. */
  outcomes: Partial<Record<Outcome, number>>;
}

/** Creates counters that are all zero. */
export function newMeter(): RequestMeter {
  return { requests: 0, retries: 0, limited: 0, bytes: 0, outcomes: {} };
}

/** Returns the counters without those by outcome. */
export function countsOf({ requests, retries, limited, bytes }: RequestMeter): Omit<RequestMeter, 'outcomes'> {
  return { requests, retries, limited, bytes };
}

/** Replaces the credential of the source: `nobody` sends none, `stranger` a wrong one of the same form. */
export type OtherCaller = 'nobody' | 'stranger';

export type HttpMethod = 'GET' | 'POST' | 'PUT';

/** A request to the service, with the rules for its answer. */
export interface ApiRequest {
  url: URL;
  /** Default: GET. A POST is a read as well, so it is retried like any other request. */
  method?: HttpMethod | undefined;
  /** Headers in addition to those of the profile, with lower-case names; sent only to the origin of `base_url`. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** JSON. */
  body?: string | undefined;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
  /** Default: the credential of the source. */
  as?: OtherCaller | undefined;
  /** `skip`: a 404 or 410 has the outcome `skip` and is no error. */
  missing?: 'skip' | undefined;
  /** Returns true if the response means that the record does not exist: outcome `skip`, no error. */
  isGone?: ((answer: { status: number; json: JsonValue | undefined }) => boolean) | undefined;
  /** Responses with the outcome `skip` and the code `declared`, whatever the outcome table says. */
  skips?: AnswerRule | undefined;
  /** Returns true if the body is one record, so that a field `error` belongs to it. Default: by the resources of the profile. */
  isRecord?: ((body: JsonValue) => boolean) | undefined;
  /** Memory reserved for the answer, which the caller releases. By default it is released when the request ends. */
  reservation?: MemoryReservation | undefined;
  /** Consumes the body of a 2xx; the answer then has no `bytes`. */
  into?: BodySink | undefined;
  /** `fail`: fail with `memory_full` instead of waiting for memory. */
  whenFull?: 'fail' | undefined;
}

/** An answer with the outcome `ok`, or `skip`; then `json` is null. */
export interface ApiAnswer {
  outcome: 'ok' | 'skip';
  /** Code of the outcome; `declared` if `skips` of the request decided it. */
  code: string;
  url: URL;
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The decoded body as UTF-8; `json` is parsed from exactly these bytes. */
  bytes: Buffer;
  json: JsonValue;
  /**
   * Epoch milliseconds of the local clock before which the answer was not made: just before the successful attempt was
   * sent, less the age that a cache states.
   */
  requestedAt: number;
  age: AnswerAge;
  /** The response's own `Date` as epoch milliseconds; null if it is absent or implausible. */
  serverDate: number | null;
  /** Query parameters with the credential, which must be removed from links in the answer. */
  withheld?: readonly string[] | undefined;
}

/** Sends requests with authentication, rate limit, retries and redirects. */
export interface ApiClient {
  get(request: ApiRequest): Promise<ApiAnswer>;
  /** Tries a refused credential again; called after an operator has fixed it. */
  retry(): void;
  close(): Promise<void>;
}

/** A retry that is about to be waited for, for the log and live progress. */
export interface RetryEvent {
  method: HttpMethod;
  url: string;
  /** Null if no answer came. */
  status: number | null;
  code: string;
  /** Number of this retry, from 1, and the maximum. */
  retry: number;
  of: number;
  wait_ms: number;
  /** Why the attempt failed: `ECONNREFUSED`, `answered 503`. */
  reason: string;
  request_id: string | null;
}

/** `retry 3 of 5 in 4 s: ECONNREFUSED`. */
export function retryText({ retry, of, wait_ms, reason }: RetryEvent): string {
  return `retry ${retry} of ${of} in ${Math.round(wait_ms / 100) / 10} s: ${reason}`;
}

/** One attempt, for the log; `status` is null if no answer came. */
export interface AttemptEvent {
  msg: 'request';
  method: HttpMethod;
  url: string;
  status: number | null;
  outcome: Outcome;
  code: string;
  attempt: number;
  latency_ms: number;
  request_id: string | null;
}

/** How old a response was when it came, and for how long the cache that sent it keeps responses. */
export interface AnswerAge {
  /** Milliseconds; 0 for a response that did not come from a cache, as far as its headers show. */
  ageMs: number;
  /** Milliseconds for which the cache keeps it; null if no header says so. */
  lifetimeMs: number | null;
  /** True if the response states its age. An age of 0 means just fetched, or cached for less than a second. */
  isStated: boolean;
}

/** `Age` counts whole seconds, so a response may be almost one second older than it states. */
export const AGE_STEP_MS = 1_000;

/** Reads the age by `Age`, and the lifetime in a cache by `Cache-Control` (RFC 9111). */
export function readAnswerAge(headers: Readonly<Record<string, string | string[] | undefined>>): AnswerAge {
  const age = toSeconds(firstValue(headers['age']));
  if (age === null) return { ageMs: 0, lifetimeMs: null, isStated: false };
  const cacheControl = firstValue(headers['cache-control']);
  const lifetime = directive(cacheControl, 's-maxage') ?? directive(cacheControl, 'max-age');
  return {
    ageMs: age === 0 ? 0 : age * 1_000 + AGE_STEP_MS,
    lifetimeMs: lifetime === null ? null : lifetime * 1_000,
    isStated: true,
  };
}

function directive(text: string, name: string): number | null {
  const found = text.split(',').find((part) => part.trim().toLowerCase().startsWith(`${name}=`));
  return found === undefined ? null : toSeconds(found.slice(found.indexOf('=') + 1).replaceAll('"', ''));
}

function toSeconds(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}

/** If a header occurs several times, the first one counts. */
function firstValue(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}
