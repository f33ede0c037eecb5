/** What a request of a source and its answer are, and the client that sends it. */
import type { AnswerRule } from '../config/profile/request-fields.ts';
import type { JsonValue } from '../model/json.ts';
import type { Lane, Outcome } from '../model/vocabulary.ts';
import type { AnswerHold } from './body/answer-memory.ts';
import type { BodySink } from './body/read-body.ts';

/** Counters that a caller hands in and reads afterwards, also when the request fails. */
export interface RequestMeter {
  /** Attempts sent, retries included. */
  requests: number;
  retries: number;
  /** Answers that said "too many requests". */
  limited: number;
  /** Bytes of answers as received, before decompression. */
  bytes: number;
  /** Attempts that were judged, by their outcome. */
  outcomes: Partial<Record<Outcome, number>>;
}

/** All at zero. */
export function newMeter(): RequestMeter {
  return { requests: 0, retries: 0, limited: 0, bytes: 0, outcomes: {} };
}

/** The figures of a meter that are sums of all outcomes. */
export function countsOf({ requests, retries, limited, bytes }: RequestMeter): Omit<RequestMeter, 'outcomes'> {
  return { requests, retries, limited, bytes };
}

/** A caller in place of the source's own: without any credential, or with a false one of the same form. */
export type OtherCaller = 'nobody' | 'stranger';

export type HttpMethod = 'GET' | 'POST' | 'PUT';

export interface ApiRequest {
  url: URL;
  /** GET if absent. A POST is a read as well: it is tried again like any other. */
  method?: HttpMethod | undefined;
  /** Headers besides those of the profile, names in lower case. They are only sent to the home origin. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** JSON. */
  body?: string | undefined;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
  /** Absent: the source's own credential is sent. */
  as?: OtherCaller | undefined;
  /** `skip`: a 404 or 410 is an answer (outcome `skip`), not an error. */
  missing?: 'skip' | undefined;
  /** True for a response that says that the record does not exist: it has the outcome `skip` and is no error. */
  isGone?: ((answer: { status: number; json: JsonValue | undefined }) => boolean) | undefined;
  /** Answers that are none of an error (outcome `skip`, code `declared`), whatever the outcome table says of them. */
  skips?: AnswerRule | undefined;
  /** True for a body that is a record itself: a field `error` is one of its own. By the profile's resources if absent. */
  isRecord?: ((body: JsonValue) => boolean) | undefined;
  /** The memory that the answer takes, to be released by the caller; if absent it counts until the answer is there. */
  hold?: AnswerHold | undefined;
  /** Takes the body of a 2xx in place of memory; the answer has none then. */
  into?: BodySink | undefined;
  /** `fail`: if there is no memory for the answer, it is not waited for (`memory_full`). */
  whenFull?: 'fail' | undefined;
}

/** One answer whose outcome is `ok`, or `skip`, with a `json` of null. */
export interface ApiAnswer {
  outcome: 'ok' | 'skip';
  /** Why; `declared` if the request itself says so. */
  code: string;
  url: URL;
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The decoded body as UTF-8; `json` is parsed from exactly these bytes. */
  bytes: Buffer;
  json: JsonValue;
  /**
   * Local epoch milliseconds from which on the answer was made: just before the successful attempt was sent, or, out of
   * a cache, so much sooner as that says.
   */
  requestedAt: number;
  age: AnswerAge;
  /** The response's own `Date` as epoch milliseconds; null if it is absent or implausible. */
  serverDate: number | null;
  /** Query parameters that hold the credential: a link of the answer may echo them, and no position has them. */
  withheld?: readonly string[] | undefined;
}

/** One request, done properly: auth, slot, outcome, retries, redirects, limits. */
export interface ApiClient {
  get(request: ApiRequest): Promise<ApiAnswer>;
  /** Forgets that a credential was refused, because an operator has fixed it. */
  retry(): void;
  close(): Promise<void>;
}

/** A failed attempt that is retried after a wait, for the log and live progress. */
export interface RetryEvent {
  method: HttpMethod;
  url: string;
  /** Null if no answer came. */
  status: number | null;
  code: string;
  /** Which retry of the request this is, from 1, and how many there may be. */
  retry: number;
  of: number;
  wait_ms: number;
  /** Why the attempt failed, in a few words: `ECONNREFUSED`, `answered 503`. */
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
  isTold: boolean;
}

/** `Age` counts whole seconds, so a response may be almost one second older than it states. */
export const AGE_STEP_MS = 1_000;

/** Reads the age by `Age`, and the lifetime in a cache by `Cache-Control` (RFC 9111). */
export function readAnswerAge(headers: Readonly<Record<string, string | string[] | undefined>>): AnswerAge {
  const age = toSeconds(firstValue(headers['age']));
  if (age === null) return { ageMs: 0, lifetimeMs: null, isTold: false };
  const cacheControl = firstValue(headers['cache-control']);
  const lifetime = directive(cacheControl, 's-maxage') ?? directive(cacheControl, 'max-age');
  return {
    ageMs: age === 0 ? 0 : age * 1_000 + AGE_STEP_MS,
    lifetimeMs: lifetime === null ? null : lifetime * 1_000,
    isTold: true,
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
