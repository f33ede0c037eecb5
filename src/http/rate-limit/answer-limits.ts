// Reads the rate limits that an answer states: how long to wait, and how many requests are left. Services use many
// header names and forms for it; the profile's dialect (`rate_limit`) says which. Example: `RateLimit:
// "default";r=5;t=30` means that 5 more requests are allowed in the next 30 seconds.
import { type InnerList, type Item, parseDictionary, parseList, Token } from 'structured-headers';
import type { RateDialect, RateEntry } from '../../config/profile/rate-dialect.ts';
import type { JsonValue } from '../../model/json.ts';
import { readServerTime, parseHttpDate } from '../../model/timestamp-text.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { readAnswerAge } from '../client.ts';

/** One quota as one answer states it; null for what it does not state. */
export interface QuotaHint {
  /** Distinguishes the quotas of one service: the header family, the policy, the bucket. */
  name: string;
  limit: number | null;
  remaining: number | null;
  /** Milliseconds from the answer until the window ends. */
  resetMs: number | null;
  windowMs: number | null;
  /** Requests per second by which the quota is refilled. */
  refill: number | null;
  /** False if the quota counts something else (bytes, tokens): then it only matters when exhausted. */
  requests: boolean;
}

/** The limits that one answer states. Waits are milliseconds from its arrival, never negative. */
export interface AnswerLimits {
  /** `Retry-After`, or the same field of the dialect; null if it is absent or unreadable. */
  retryAfterMs: number | null;
  /** The wait before the next request; null if none is stated, or the quotas state it. */
  waitMs: number | null;
  quotas: QuotaHint[];
}

interface RateAnswer {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body: some services state limits only there. */
  body?: JsonValue | undefined;
  /** Epoch milliseconds of the local clock; used if the response has no usable `Date`. */
  receivedAt: number;
}

/** One entry of the dialect, and its value in the answer. */
interface FoundEntry {
  entry: RateEntry;
  value: string;
}

interface LimitsReading {
  /** Epoch milliseconds by the service's clock. */
  serverNow: number;
  retryAfterMs: number | null;
  /** The wait in a service's own field (`wait` in the dialect). */
  vendorWaitMs: number | null;
  /** The service's name for the quotas of this answer, if it has several sets of them. */
  bucket: string | null;
  quotas: Map<string, QuotaHint>;
}

/**
 * Reads the limits that an answer states, by a dialect. A wait comes from `Retry-After`, else from an exhausted quota
 * with a reset (`RateLimit` and similar headers), else from a vendor's own field. Absolute times are relative to the
 * answer's `Date`. Of a cached answer (`Age` above 0) only `Retry-After` counts. Malformed, negative and implausible
 * fields are ignored. Sources: RFC 9110, draft-ietf-httpapi-ratelimit-headers.
 */
export function readAnswerLimits(answer: RateAnswer, dialect: RateDialect): AnswerLimits {
  const { headers, body } = answer;
  const none = { retryAfterMs: null, vendorWaitMs: null, bucket: null };
  const reading: LimitsReading = { ...none, serverNow: serverNow(answer), quotas: new Map() };
  const isCached = readAnswerAge(headers).ageMs > 0;
  for (const found of [...headersFound(headers, dialect), ...bodyFound(body, dialect)]) {
    if (!isCached || found.entry.means === 'retry_after') readEntry(reading, found);
  }
  const quotas = usableQuotas(reading);
  const { retryAfterMs, vendorWaitMs } = reading;
  const isReset = quotas.some((quota) => quota.remaining === 0 && quota.resetMs !== null);
  return { retryAfterMs, waitMs: retryAfterMs ?? (isReset ? null : vendorWaitMs || null), quotas };
}

/** Returns the wait of `Retry-After` in milliseconds, without a dialect; null if it is absent or unreadable. */
export function retryAfter(answer: Omit<RateAnswer, 'body'>): number | null {
  const value = textOf(answer.headers['retry-after']);
  return value === undefined ? null : longestWait(value, 'auto', serverNow(answer));
}

function serverNow({ headers, receivedAt }: Omit<RateAnswer, 'body'>): number {
  return readServerTime(headers['date'], receivedAt) ?? receivedAt;
}

/** Adds one value to the reading, unless it cannot be read. */
function readEntry(reading: LimitsReading, { entry, value }: FoundEntry): void {
  const { means, unit, group } = entry;
  switch (means) {
    case 'retry_after':
      reading.retryAfterMs = maxWait(reading.retryAfterMs, longestWait(value, unit, reading.serverNow));
      break;
    case 'wait':
      reading.vendorWaitMs = maxWait(reading.vendorWaitMs, longestWait(value, unit, reading.serverNow));
      break;
    case 'limit':
      readLimit(reading, entry, value);
      break;
    case 'remaining':
    case 'refill':
      updateQuota(reading, entry, { [means]: countIn(value) });
      break;
    case 'used_of_limit': {
      const [used = null, limit = null, ...rest] = value.split('/').map(countIn);
      if (used === null || limit === null || rest.length > 0) break;
      updateQuota(reading, entry, { limit, remaining: Math.max(0, limit - used) });
      break;
    }
    case 'reset':
    case 'window': {
      const field = means === 'reset' ? 'resetMs' : 'windowMs';
      const known = reading.quotas.get(group)?.[field] ?? (means === 'window' ? entry.window_ms : undefined);
      updateQuota(reading, entry, { [field]: known ?? waitIn(value, unit, reading.serverNow) });
      break;
    }
    case 'bucket':
      reading.bucket = value;
      break;
    case 'ratelimit':
    case 'ratelimit_policy': {
      const members = means === 'ratelimit' ? rateLimitMembers(value) : policyMembers(value);
      for (const { name, ...stated } of members ?? []) updateQuota(reading, entry, stated, `/${name}`);
    }
  }
}

function maxWait(known: number | null, wait: number | null): number | null {
  return wait === null ? known : Math.max(known ?? 0, wait);
}

/** Reads a number, or the list of draft 6 (`10, 10;w=1, 1000;w=3600`): the limit, then policies, which are quotas too. */
function readLimit(reading: LimitsReading, entry: RateEntry, value: string): void {
  const count = countIn(value);
  if (count !== null) return updateQuota(reading, entry, { limit: count });
  const [first, ...policies] = policyMembers(value) ?? [];
  if (first === undefined) return;
  // One of the policies repeats the limit, with its window.
  const samePolicy = policies.find((policy) => policy.limit === first.limit);
  updateQuota(reading, entry, { limit: first.limit, windowMs: samePolicy?.windowMs });
  for (const { name: _, ...policy } of policies.filter((each) => each !== samePolicy)) {
    updateQuota(reading, entry, policy, `/${(policy.windowMs ?? 0) / 1_000}s`);
  }
}

/** What one value states about a quota; undefined and null for what it does not state. */
type QuotaStatement = { [Field in keyof QuotaHint]?: QuotaHint[Field] | undefined };

/** Updates the quota of the entry's group; a window of 0 is ignored. */
function updateQuota(reading: LimitsReading, entry: RateEntry, stated: QuotaStatement, suffix = ''): void {
  const values = Object.entries(stated).filter(
    ([field, value]) => value !== null && value !== undefined && !(field === 'windowMs' && value === 0),
  );
  if (values.length === 0) return;
  const name = entry.group + suffix;
  const { window_ms: windowMs = null, refill = null, requests } = entry;
  const unknown = { limit: null, remaining: null, resetMs: null };
  const known = reading.quotas.get(name) ?? { name, ...unknown, windowMs, refill, requests };
  reading.quotas.set(name, { ...known, ...Object.fromEntries(values) });
}

/** The quotas that state what remains, or a rate. */
function usableQuotas({ bucket, quotas }: LimitsReading): QuotaHint[] {
  const usable = [...quotas.values()].filter((quota) => quota.remaining !== null || (quota.limit && quota.windowMs));
  if (bucket !== null) for (const quota of usable) quota.name += `#${bucket}`;
  return usable;
}

function headersFound(headers: RateAnswer['headers'], dialect: RateDialect): FoundEntry[] {
  return dialect.headers.flatMap((entry) => {
    if (entry.at.includes('{window}')) return windowsFound(headers, entry);
    const value = textOf(headers[entry.at]);
    return value === undefined ? [] : [{ entry, value }];
  });
}

const WINDOWS_MS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  month: 2_592_000_000,
};

/** For `x-ratelimit-limit-{window}`: each window in the answer is a quota. */
function windowsFound(headers: RateAnswer['headers'], entry: RateEntry): FoundEntry[] {
  return Object.entries(WINDOWS_MS).flatMap(([word, window_ms]) => {
    const value = textOf(headers[entry.at.replace('{window}', word)]);
    const group = `${entry.group}/${word}`;
    return value === undefined ? [] : [{ entry: { ...entry, group, window_ms }, value }];
  });
}

function bodyFound(body: JsonValue | undefined, dialect: RateDialect): FoundEntry[] {
  return dialect.body.flatMap((entry) => {
    const value = body === undefined ? undefined : fieldAt(body, entry.at);
    return typeof value === 'number' || typeof value === 'string' ? [{ entry, value: String(value).trim() }] : [];
  });
}

/** Joins a repeated header with commas (RFC 9110, section 5.3). */
function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value?.trim();
}

/** What one member of a `RateLimit` or `RateLimit-Policy` field states about the quota of its name. */
type FieldMember = QuotaStatement & { name: string };

/**
 * Reads `RateLimit`: the list of draft 8 and later (`"p";r=5;t=2`), or the dictionary of draft 7
 * (`limit=10, remaining=1, reset=7`). Null if it is neither; members without `remaining` are omitted.
 */
export function rateLimitMembers(field: string): FieldMember[] | null {
  const dictionary = tryParse(parseDictionary, field);
  const inDictionary = (key: string): unknown => dictionary?.get(key)?.[0];
  const members =
    listMembers(field) ??
    (dictionary && [quotaMember('default', inDictionary('limit'), inDictionary('remaining'), inDictionary('reset'))]);
  return members?.filter(({ remaining }) => remaining !== undefined) ?? null;
}

/** Reads `RateLimit-Policy`: `"p";q=100;w=60`, or `100;w=60` as in draft 7. Null if it is no list. */
export function policyMembers(field: string): FieldMember[] | null {
  return listMembers(field)?.filter(({ limit }) => limit !== undefined) ?? null;
}

function listMembers(field: string): FieldMember[] | null {
  return tryParse(parseList, field)?.map(listMember) ?? null;
}

function listMember([value, parameters]: Item | InnerList): FieldMember {
  const [name, limit] = typeof value === 'number' ? ['default', value] : [nameIn(value), parameters.get('q')];
  const member = quotaMember(name, limit, parameters.get('r'), parameters.get('t'));
  const unit = parameters.get('qu');
  // `qu` may name a unit other than requests.
  const requests = unit === undefined || nameIn(unit) === 'requests' ? undefined : false;
  return { ...member, windowMs: milliseconds(parameters.get('w')), requests };
}

function quotaMember(name: string, limit: unknown, remaining: unknown, reset: unknown): FieldMember {
  return {
    name,
    limit: plainNumber(limit) || undefined,
    remaining: plainNumber(remaining),
    resetMs: milliseconds(reset),
  };
}

/** Names are strings, and tokens in drafts; anything else is the default quota. */
function nameIn(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Token ? value.toString() : 'default';
}

function plainNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** Converts the seconds of a field; undefined if it has none. */
function milliseconds(value: unknown): number | undefined {
  const seconds = plainNumber(value);
  return seconds === undefined ? undefined : Math.min(seconds * 1_000, LONGEST_WAIT_MS);
}

function tryParse<T>(parse: (field: string) => T, field: string): T | null {
  try {
    return parse(field);
  } catch {
    return null;
  }
}

const DAY_MS = 86_400_000;

/** Longer waits are cut to ten years, so that their end can be stored and shown. */
export const LONGEST_WAIT_MS = 3_650 * DAY_MS;

/** A time more than an hour ago is a mistake. */
const OLDEST_MS = -3_600_000;

/**
 * A number is a Unix time if that is after 2001 and at most a year ago; a lower one is a number of seconds. The fixed
 * year is for a machine whose clock is wrong after a start.
 */
const UNIX_TIME_FROM_MS = -366 * DAY_MS;
const EARLIEST_UNIX_TIME_MS = 1e12;

const NUMBER = /^\d+(\.\d+)?$/;
const ISO_DATE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;
const GO_DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/;
const GO_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/**
 * Returns the milliseconds until a stated time, at most `LONGEST_WAIT_MS`; 0 for past times. Null if the text cannot be
 * read, or is long past. Absolute times are relative to `serverNow`, the response's `Date` in epoch milliseconds.
 */
function waitIn(text: string, unit: RateEntry['unit'], serverNow: number): number | null {
  const wait = unit === 'ms' ? numberIn(text.trim()) : parseWait(text.trim(), serverNow);
  return wait >= OLDEST_MS ? Math.min(Math.max(0, wait), LONGEST_WAIT_MS) : null;
}

/** Returns NaN if the text is no time. Tests for digits first, because `new Date('120')` is a valid date. */
function parseWait(text: string, now: number): number {
  if (NUMBER.test(text)) return untilNumber(Number(text), now);
  if (GO_DURATION.test(text)) return goDuration(text);
  return (ISO_DATE.test(text) ? Date.parse(text) : (parseHttpDate(text) ?? Number.NaN)) - now;
}

/** A comma between two values of a repeated header, not within a date. */
const BETWEEN_VALUES = /(?<!(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|day)),/;

/** Returns the wait of a header, or the longest if it is repeated; null if any cannot be read. */
function longestWait(text: string, unit: RateEntry['unit'], serverNow: number): number | null {
  const waits = text.split(BETWEEN_VALUES).map((part) => waitIn(part, unit, serverNow));
  return waits.reduce((longest, wait) => (longest === null || wait === null ? null : Math.max(longest, wait)), 0);
}

/** Distinguishes seconds from now, Unix seconds and Unix milliseconds by their size. Returns milliseconds from now. */
function untilNumber(number: number, now: number): number {
  const from = Math.max(now + UNIX_TIME_FROM_MS, EARLIEST_UNIX_TIME_MS);
  if (number >= from) return number - now;
  return number * 1_000 >= from ? number * 1_000 - now : number * 1_000;
}

function numberIn(text: string): number {
  return NUMBER.test(text) ? Number(text) : Number.NaN;
}

/** Returns the number in a header; null if there is none, or it is not finite. */
function countIn(text: string): number | null {
  return Number.isFinite(numberIn(text)) ? Number(text) : null;
}

function goDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (GO_UNITS[unit ?? ''] ?? Number.NaN), 0);
}
