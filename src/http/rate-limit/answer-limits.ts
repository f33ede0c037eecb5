/** Reads what an answer says about rate limits: waits and quotas, in the headers and body fields of a dialect. */
import { readAnswerAge } from '../client.ts';
import { type InnerList, type Item, parseDictionary, parseList, Token } from 'structured-headers';
import type { RateDialect, RateEntry } from '../../config/profile/rate-dialect.ts';
import type { JsonValue } from '../../model/json.ts';
import { clockOf, httpDate } from '../../model/timestamp-text.ts';

/** One quota as one answer states it; null for what it does not state. */
export interface QuotaHint {
  /** Distinguishes the quotas of one service: the header family, the policy, the bucket. */
  name: string;
  limit: number | null;
  remaining: number | null;
  /** Milliseconds from the answer until the window ends. */
  resetMs: number | null;
  windowMs: number | null;
  /** Requests per second that come back. */
  refill: number | null;
  /** False if the quota counts something else (bytes, tokens): then only its exhaustion means anything. */
  requests: boolean;
}

/** All that one answer says about the limits. Waits are milliseconds from its arrival and never negative. */
export interface AnswerLimits {
  /** `Retry-After`, or what the dialect calls so; null if it is absent or cannot be read. */
  retryAfterMs: number | null;
  /** Nothing may be sent before this has passed: the first rung of the ladder that states a wait; null if none does. */
  waitMs: number | null;
  quotas: QuotaHint[];
  /** True if one of the usual fields says that no request is left, whether or not the dialect names it. */
  isExhausted: boolean;
}

/** The part of an answer that may carry limits. */
interface RateAnswer {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body if there is one: some services say "throttled" only there. */
  body?: JsonValue | undefined;
  /** Local epoch milliseconds; used if the response has no usable `Date`. */
  receivedAt: number;
}

/** One entry of the dialect, and its value in the answer. */
type FoundEntry = { entry: RateEntry; value: string };

/** The sum of the found entries, while they are read. */
interface LimitsReading {
  serverNow: number;
  retryAfterMs: number | null;
  vendorWaitMs: number | null;
  bucket: string | null;
  drafts: Map<string, QuotaHint>;
}

/**
 * Reads an answer's limits by a dialect, once for all who go by them. The ladder: `Retry-After`, then an exhausted quota
 * with its reset (`RateLimit` and its like), then a vendor's own wait; below it comes the budget's own pause. Absolute
 * times are read against the answer's `Date`. Of an answer out of a cache (`Age` above 0) only the first rung is read.
 * A field that is malformed, negative or implausible is left out. Source: RFC 9110,
 * draft-ietf-httpapi-ratelimit-headers.
 */
export function readAnswerLimits(answer: RateAnswer, dialect: RateDialect): AnswerLimits {
  const { headers, body } = answer;
  const reading: LimitsReading = {
    serverNow: serverNow(answer),
    retryAfterMs: null,
    vendorWaitMs: null,
    bucket: null,
    drafts: new Map(),
  };
  const cached = readAnswerAge(headers).ageMs > 0;
  for (const found of [...headersFound(headers, dialect), ...bodyFound(body, dialect)]) {
    if (cached && found.entry.means !== 'retry_after') continue;
    READERS[found.entry.means](reading, found);
  }
  const quotas = quotasOf(reading);
  const { retryAfterMs, vendorWaitMs } = reading;
  const isReset = quotas.some((quota) => quota.remaining === 0 && quota.resetMs !== null);
  const waitMs = retryAfterMs ?? (isReset ? null : vendorWaitMs || null);
  return { retryAfterMs, waitMs, quotas, isExhausted: !cached && isExhausted(headers) };
}

/**
 * Returns the wait of `Retry-After` in milliseconds, for a service without a dialect; null if it is absent or
 * unreadable.
 */
export function retryAfter(answer: Omit<RateAnswer, 'body'>): number | null {
  const value = textOf(answer.headers['retry-after']);
  return value === undefined ? null : longestWait(value, 'auto', serverNow(answer));
}

const USUAL_REMAINING = ['x-ratelimit-remaining', 'x-rate-limit-remaining', 'ratelimit-remaining'];

function isExhausted(headers: RateAnswer['headers']): boolean {
  const members = rateLimitMembers(textOf(headers['ratelimit']) ?? '') ?? [];
  const counts = USUAL_REMAINING.map((name) => countIn(textOf(headers[name]) ?? ''));
  return [...members.map(({ remaining }) => remaining), ...counts].includes(0);
}

function serverNow({ headers, receivedAt }: Omit<RateAnswer, 'body'>): number {
  return clockOf(headers['date'], receivedAt) ?? receivedAt;
}

/** Takes one value into the reading, unless it cannot be used. */
type EntryReader = (reading: LimitsReading, found: FoundEntry) => void;

const READERS: Readonly<Record<RateEntry['means'], EntryReader>> = {
  retry_after: (reading, found) => wait(reading, found, 'retryAfterMs'),
  wait: (reading, found) => wait(reading, found, 'vendorWaitMs'),
  limit: (reading, found) => {
    if (countIn(found.value) !== null) return number(reading, found, 'limit');
    const members = policyMembers(found.value) ?? [];
    const [first, ...policies] = members;
    if (first?.limit === undefined) return;
    const same = policies.find((policy) => policy.limit === first.limit);
    merge(reading, found.entry, '', { limit: first.limit, windowMs: milliseconds(same?.window) });
    for (const policy of policies) if (policy !== same) policyQuota(reading, found, policy, `/${policy.window}s`);
  },
  remaining: (reading, found) => number(reading, found, 'remaining'),
  refill: (reading, found) => number(reading, found, 'refill'),
  used_of_limit: (reading, found) => {
    const [used = null, limit = null, ...rest] = found.value.split('/').map(countIn);
    if (used === null || limit === null || rest.length > 0) return;
    merge(reading, found.entry, '', { limit, remaining: Math.max(0, limit - used) });
  },
  reset: (reading, found) => time(reading, found, 'resetMs'),
  window: (reading, found) => time(reading, found, 'windowMs'),
  bucket: (reading, found) => {
    reading.bucket = found.value;
  },
  ratelimit: (reading, found) => {
    for (const member of rateLimitMembers(found.value) ?? []) {
      const resetMs = milliseconds(member.reset);
      const said = { remaining: member.remaining ?? null, resetMs, requests: member.requests };
      merge(reading, found.entry, `/${member.name}`, { ...said, ...(member.limit ? { limit: member.limit } : {}) });
    }
  },
  ratelimit_policy: (reading, found) => {
    for (const member of policyMembers(found.value) ?? []) policyQuota(reading, found, member, `/${member.name}`);
  },
};

function wait(reading: LimitsReading, { entry, value }: FoundEntry, field: 'retryAfterMs' | 'vendorWaitMs'): void {
  const waitMs = longestWait(value, entry.unit, reading.serverNow);
  if (waitMs !== null) reading[field] = Math.max(reading[field] ?? 0, waitMs);
}

function policyQuota(reading: LimitsReading, { entry }: FoundEntry, member: FieldMember, suffix: string): void {
  const said = { limit: member.limit ?? null, windowMs: milliseconds(member.window) };
  merge(reading, entry, suffix, member.requests ? said : { ...said, requests: false });
}

function number(reading: LimitsReading, { entry, value }: FoundEntry, field: 'limit' | 'remaining' | 'refill'): void {
  const count = countIn(value);
  if (count !== null) merge(reading, entry, '', { [field]: count });
}

function time(reading: LimitsReading, { entry, value }: FoundEntry, field: 'resetMs' | 'windowMs'): void {
  const wait = waitIn(value, entry.unit, reading.serverNow);
  if (wait !== null && draftOf(reading, entry, '')[field] === null) merge(reading, entry, '', { [field]: wait });
}

function draftOf(reading: LimitsReading, entry: RateEntry, suffix: string): QuotaHint {
  const name = entry.group + suffix;
  const known = reading.drafts.get(name);
  if (known) return known;
  const { window_ms: windowMs = null, refill = null, requests } = entry;
  const draft = { name, limit: null, remaining: null, resetMs: null, windowMs, refill, requests };
  reading.drafts.set(name, draft);
  return draft;
}

/** A window without any length says nothing. */
function merge(reading: LimitsReading, entry: RateEntry, suffix: string, said: Partial<QuotaHint>): void {
  const told = Object.entries(said).filter(([name, value]) => value !== null && !(name === 'windowMs' && value === 0));
  Object.assign(draftOf(reading, entry, suffix), Object.fromEntries(told));
}

/** The quotas that state what is left, or their rate: others are no use. */
function quotasOf({ bucket, drafts }: LimitsReading): QuotaHint[] {
  const quotas = [...drafts.values()].filter((quota) => quota.remaining !== null || (quota.limit && quota.windowMs));
  if (bucket !== null) for (const quota of quotas) quota.name += `#${bucket}`;
  return quotas;
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

/** `x-ratelimit-limit-{window}`: each window that the answer names is a quota of its own. */
function windowsFound(headers: RateAnswer['headers'], entry: RateEntry): FoundEntry[] {
  return Object.entries(WINDOWS_MS).flatMap(([word, window_ms]) => {
    const value = textOf(headers[entry.at.replace('{window}', word)]);
    const group = `${entry.group}/${word}`;
    return value === undefined ? [] : [{ entry: { ...entry, group, window_ms }, value }];
  });
}

function bodyFound(body: JsonValue | undefined, dialect: RateDialect): FoundEntry[] {
  return dialect.body.flatMap((entry) => {
    const value = entry.at.split('.').reduce<unknown>(member, body);
    return typeof value === 'number' || typeof value === 'string' ? [{ entry, value: String(value).trim() }] : [];
  });
}

function member(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Object.entries(value).find(([name]) => name === key)?.[1];
}

/** A repeated header is one value with commas, RFC 9110 section 5.3. */
function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value?.trim();
}

/** One member of a `RateLimit` or `RateLimit-Policy` field; times are seconds as written there. */
interface FieldMember {
  name: string;
  limit: number | undefined;
  remaining: number | undefined;
  reset: number | undefined;
  window: number | undefined;
  /** False if `qu` names a unit other than requests. */
  requests: boolean;
}

/**
 * Members of `RateLimit`: the list of draft 8 and later (`"p";r=5;t=2`), or the dictionary of draft 7
 * (`limit=10, remaining=1, reset=7`). Null if the field is neither; members that say nothing are left out.
 */
export function rateLimitMembers(field: string): FieldMember[] | null {
  const list = attempt(parseList, field);
  if (list) return list.map(listMember).filter((member) => member.remaining !== undefined);
  const dictionary = attempt(parseDictionary, field);
  return dictionary ? [dictionaryMember(dictionary)].filter((member) => member.remaining !== undefined) : null;
}

/** Members of `RateLimit-Policy`: `"p";q=100;w=60`, or `100;w=60` as in draft 7. Null if it is no list. */
export function policyMembers(field: string): FieldMember[] | null {
  const list = attempt(parseList, field);
  return list ? list.map(listMember).filter((member) => member.limit !== undefined) : null;
}

function listMember([value, parameters]: Item | InnerList): FieldMember {
  const parameter = (key: string) => plainNumber(parameters.get(key));
  const unit = parameters.get('qu');
  return {
    name: typeof value === 'number' ? 'default' : nameIn(value),
    limit: typeof value === 'number' ? plainNumber(value) : parameter('q'),
    remaining: parameter('r'),
    reset: parameter('t'),
    window: parameter('w'),
    requests: unit === undefined || nameIn(unit) === 'requests',
  };
}

function dictionaryMember(dictionary: ReadonlyMap<string, Item | InnerList>): FieldMember {
  const value = (key: string) => plainNumber(dictionary.get(key)?.[0]);
  const [limit, remaining, reset] = [value('limit'), value('remaining'), value('reset')];
  return { name: 'default', limit, remaining, reset, window: undefined, requests: true };
}

/** Names are strings; drafts had tokens. Anything else is one nameless quota. */
function nameIn(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Token ? value.toString() : 'default';
}

function plainNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function attempt<T>(parse: (field: string) => T, field: string): T | null {
  try {
    return parse(field);
  } catch {
    return null;
  }
}

const DAY_MS = 86_400_000;

/** A stated wait always counts; beyond ten years it counts as ten years, so that its end can be stored and shown. */
export const LONGEST_WAIT_MS = 3_650 * DAY_MS;

/** A time more than an hour ago is a mistake. */
const OLDEST_MS = -3_600_000;

/**
 * A number is a Unix time if that is at most a year ago; a lower one is a number of seconds. So is one from before
 * 2001, because the clock of a machine that has just started may be wrong.
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

/** NaN if it is no time. Digits come first: `new Date('120')` and `new Date('-5')` are dates to JavaScript. */
function parseWait(text: string, now: number): number {
  if (NUMBER.test(text)) return secondsOrMoment(Number(text), now);
  if (GO_DURATION.test(text)) return goDuration(text);
  return (ISO_DATE.test(text) ? Date.parse(text) : (httpDate(text, now) ?? Number.NaN)) - now;
}

/** A comma between two values of a repeated header, not within a date. */
const BETWEEN_VALUES = /(?<!(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|day)),/;

/** The one wait that a header states, or the longest if it came twice; null if any of them cannot be read. */
function longestWait(text: string, unit: RateEntry['unit'], serverNow: number): number | null {
  const waits = text.split(BETWEEN_VALUES).map((part) => waitIn(part, unit, serverNow));
  return waits.reduce((longest, wait) => (longest === null || wait === null ? null : Math.max(longest, wait)), 0);
}

/** Seconds from now, Unix seconds and Unix milliseconds of our time lie far apart. */
function secondsOrMoment(number: number, now: number): number {
  const from = Math.max(now + UNIX_TIME_FROM_MS, EARLIEST_UNIX_TIME_MS);
  if (number >= from) return number - now;
  return number * 1_000 >= from ? number * 1_000 - now : number * 1_000;
}

function numberIn(text: string): number {
  return NUMBER.test(text) ? Number(text) : Number.NaN;
}

/** A count as a header writes it; null for what is no number, or one that no number can hold. */
function countIn(text: string): number | null {
  return Number.isFinite(numberIn(text)) ? Number(text) : null;
}

/** Seconds as a field states them, in milliseconds; null if it states none. */
function milliseconds(seconds: number | undefined): number | null {
  return seconds === undefined ? null : Math.min(seconds * 1_000, LONGEST_WAIT_MS);
}

function goDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (GO_UNITS[unit ?? ''] ?? Number.NaN), 0);
}
