import { ConfigError } from '../model/errors.ts';
import type { Sort } from './records/base-records.ts';
import { SORTS } from './records/base-records.ts';
import { type FaultScript, parseFault } from './faults/fault-script.ts';
import type { Pagination } from './pages/page-query.ts';
import { PAGINATIONS } from './pages/page-query.ts';
import type { RateDialect, RetryAfterForm } from './rate-limit.ts';
import { RATE_DIALECTS, RETRY_AFTER_FORMS } from './rate-limit.ts';

/** Everything that can be chosen about a sandbox; each is a flag of `content-sync sandbox` as well. */
export interface SandboxSettings {
  port: number;
  host: string;
  apiKey: string | null;
  clientId: string;
  clientSecret: string | null;
  /** Seconds. */
  tokenLifetime: number;
  /** A new access token ends the one before it. */
  oneToken: boolean;
  readOnly: boolean;
  data: string | null;
  generate: Readonly<Record<string, number>>;
  generateFlat: boolean;
  pagination: Pagination;
  total: boolean;
  sort: Sort;
  limit: number;
  maxLimit: number;
  /** Milliseconds, as all durations below. */
  visibilityLag: number;
  latency: number;
  clockSkew: number;
  rate: number | null;
  burst: number | null;
  concurrency: number | null;
  rateHeaders: RateDialect;
  retryAfter: RetryAfterForm;
  webhookRetry: number;
  gzip: boolean;
  /** Bytes of a request's body. */
  maxBody: number;
  /** Bytes of ready-made pages. */
  cache: number;
  fault: readonly FaultScript[];
}

/** One option: its flag, what it does, what holds without it, and how its text is read. */
export interface OptionDeclaration<T = unknown> {
  flag: string;
  about: string;
  fallback: T;
  /** Throws ConfigError; absent where the flag takes no value. */
  parse?(text: string, before: T): T;
}

const MIB = 1_048_576;

/** The one table of options; the command line and the defaults both come from it. */
export const SANDBOX_OPTIONS: { readonly [K in keyof SandboxSettings]: OptionDeclaration<SandboxSettings[K]> } = {
  port: option('--port <number>', 'port to listen on; 0 picks a free one', 0, whole('--port', 0, 65_535)),
  host: option('--host <address>', 'address to listen on', '127.0.0.1', asText),
  apiKey: option('--api-key <key>', 'the API key; made up when absent', null, asText),
  clientId: option('--client-id <id>', 'OAuth client id', 'content-sync', asText),
  clientSecret: option('--client-secret <secret>', 'OAuth client secret; made up when absent', null, asText),
  tokenLifetime: option(
    '--token-lifetime <seconds>',
    'how long an access token holds',
    3_600,
    whole('--token-lifetime', 1),
  ),
  oneToken: option('--one-token', 'a new access token ends the one before it', false),
  readOnly: option('--read-only', 'refuse every write with 403', false),
  data: option('--data <folder>', 'serve <resource>.ndjson and files/ from a folder', null, asText),
  generate: option('--generate <counts>', 'records to make up, as content=200000,images=1000', {}, counts),
  generateFlat: option('--generate-flat', 'generated records hold no arrays', false),
  pagination: option('--pagination <style>', oneOf(PAGINATIONS), 'cursor', choice('--pagination', PAGINATIONS)),
  total: option('--no-total', 'do not tell how many records there are', true),
  sort: option(
    '--sort <order>',
    `${oneOf(SORTS)}: by (updated_at, id) or in no order`,
    'updated',
    choice('--sort', SORTS),
  ),
  limit: option('--limit <records>', 'page size where none is asked for', 100, whole('--limit', 1)),
  maxLimit: option(
    '--max-limit <records>',
    'largest page; a larger "limit" is cut to it',
    1_000,
    whole('--max-limit', 1),
  ),
  visibilityLag: option('--visibility-lag <time>', 'listings show a write so much later', 0, time('--visibility-lag')),
  latency: option('--latency <time>', 'every answer waits so long', 0, time('--latency')),
  clockSkew: option('--clock-skew <time>', 'the service is ahead by (negative: behind)', 0, time('--clock-skew')),
  rate: option('--rate <number>', 'requests per second that are allowed', null, positive('--rate')),
  burst: option('--burst <number>', 'requests that may come at once; the rate when absent', null, whole('--burst', 1)),
  concurrency: option(
    '--concurrency <number>',
    'requests that may be under way at once',
    null,
    whole('--concurrency', 1),
  ),
  rateHeaders: option('--rate-headers <form>', oneOf(RATE_DIALECTS), 'ietf', choice('--rate-headers', RATE_DIALECTS)),
  retryAfter: option(
    '--retry-after <form>',
    oneOf(RETRY_AFTER_FORMS),
    'seconds',
    choice('--retry-after', RETRY_AFTER_FORMS),
  ),
  webhookRetry: option(
    '--webhook-retry <time>',
    'wait before a webhook is sent again; doubles',
    1_000,
    time('--webhook-retry'),
  ),
  gzip: option('--gzip', 'compress answers for clients that take it', false),
  maxBody: option('--max-body <bytes>', 'largest body of a request', MIB, whole('--max-body', 1)),
  cache: option('--cache <MiB>', 'memory for ready-made pages', 256 * MIB, (text) => whole('--cache', 0)(text) * MIB),
  fault: option<readonly FaultScript[]>(
    '--fault <script>',
    'go wrong on cue, as status:503,resource=content,nth=3; may be repeated',
    [],
    addFault,
  ),
};

/** What is given, over the defaults. */
export function settingsFrom(given: Partial<SandboxSettings>): SandboxSettings {
  const defaults = Object.entries(SANDBOX_OPTIONS).map(([name, declaration]) => [name, declaration.fallback]);
  return { ...Object.fromEntries(defaults), ...given };
}

function option<T>(
  flag: string,
  about: string,
  fallback: T,
  parse?: (text: string, before: T) => T,
): OptionDeclaration<T> {
  return parse === undefined ? { flag, about, fallback } : { flag, about, fallback, parse };
}

function asText(text: string): string {
  return text;
}

function oneOf(values: readonly string[]): string {
  return values.join(', ');
}

function choice<T extends string>(flag: string, values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found !== undefined) return found;
    throw new ConfigError('usage', `${flag} cannot be "${text}".`, { hint: `Choose one of: ${oneOf(values)}.` });
  };
}

function whole(flag: string, least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
    throw new ConfigError('usage', `${flag} must be a whole number ${range}, not "${text}".`);
  };
}

function positive(flag: string): (text: string) => number {
  return (text) => {
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (value > 0) return value;
    throw new ConfigError('usage', `${flag} must be a number above 0, not "${text}".`);
  };
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function time(flag: string): (text: string) => number {
  return (text) => {
    const [, amount, unit = 'ms'] = /^(-?\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
    if (amount !== undefined) return Number(amount) * (UNITS[unit] ?? 1);
    throw new ConfigError('usage', `${flag} must be a time such as 250ms, 90s or 1h, not "${text}".`);
  };
}

function counts(text: string): Record<string, number> {
  const pairs = text.split(',').map((pair) => /^([a-z][a-z0-9_-]*)=(\d{1,9})$/.exec(pair.trim()));
  return Object.fromEntries(
    pairs.map((pair) => {
      if (pair?.[1] !== undefined) return [pair[1], Number(pair[2])];
      throw new ConfigError('usage', `--generate cannot read "${text}".`, {
        hint: 'Write content=200000,images=1000.',
      });
    }),
  );
}

function addFault(text: string, before: readonly FaultScript[]): FaultScript[] {
  return [...before, parseFault(text)];
}
