import { ConfigError } from '../../../src/model/errors.ts';
import { isTimeZone } from '../../../src/model/time-zone.ts';
import { parseFault, type FaultScript } from './faults/fault-script.ts';
import { PAGINATIONS, type Pagination } from './pages/listing-page.ts';
import { RATE_DIALECTS, RETRY_AFTER_FORMS, type RateDialect, type RetryAfterForm } from './rate-limit.ts';
import { SORTS, type Sort } from '../../../src/sandbox/records/base-records.ts';

/** One option: its flag, its help text, its default, and how its text is parsed. */
export interface OptionDeclaration<T = unknown> {
  flag: string;
  about: string;
  fallback: T;
  /** Throws ConfigError; absent if the flag takes no value. */
  parse?(text: string, before: T): T;
}

/** Parses the text of an option; `flag` is its name, for the error. */
type Parse<T> = (text: string, flag: string, before: T) => T;

const MIB = 1_048_576;
const mebibytes = whole(0);

/** The one table of options, for the command line, the defaults and `SandboxSettings`. Times are milliseconds. */
export const SANDBOX_OPTIONS = {
  port: option('--port <number>', 'port to listen on; 0 picks a free one', 0, whole(0, 65_535)),
  host: option('--host <address>', 'address to listen on', '127.0.0.1', asText),
  apiKey: option<string | null>('--api-key <key>', 'the API key; made up when absent', null, asText),
  clientId: option('--client-id <id>', 'OAuth client id', 'content-sync', asText),
  clientSecret: option<string | null>(
    '--client-secret <secret>',
    'OAuth client secret; made up when absent',
    null,
    asText,
  ),
  tokenLifetime: option('--token-lifetime <seconds>', 'how long an access token holds', 3_600, whole(1)),
  oneToken: option<boolean>('--one-token', 'a new access token ends the one before it', false),
  readOnly: option<boolean>('--read-only', 'refuse every write with 403', false),
  data: option<string | null>('--data <folder>', 'serve <resource>.ndjson and files/ from a folder', null, asText),
  generate: option('--generate <counts>', 'records to make up, as content=200000,images=1000', {}, counts),
  generateFlat: option<boolean>('--generate-flat', 'generated records hold no arrays', false),
  pagination: option<Pagination>('--pagination <style>', listed(PAGINATIONS), 'cursor', oneOf(PAGINATIONS)),
  total: option<boolean>('--no-total', 'do not tell how many records there are', true),
  sort: option<Sort>('--sort <order>', `${listed(SORTS)}: by (updated_at, id) or in no order`, 'updated', oneOf(SORTS)),
  limit: option('--limit <records>', 'page size where none is asked for', 100, whole(1)),
  maxLimit: option('--max-limit <records>', 'largest page; a larger "limit" is cut to it', 1_000, whole(1)),
  visibilityLag: option('--visibility-lag <time>', 'listings show a write so much later', 0, time),
  signedFiles: option<number | null>(
    '--signed-files <time>',
    'files are at signed addresses of another origin, which hold so long',
    null,
    time,
  ),
  latency: option('--latency <time>', 'every answer waits so long', 0, time),
  clockSkew: option('--clock-skew <time>', 'the service is ahead by (negative: behind)', 0, time),
  rate: option<number | null>('--rate <number>', 'requests per second that are allowed', null, positive),
  burst: option<number | null>(
    '--burst <number>',
    'requests that may come at once; the rate when absent',
    null,
    whole(1),
  ),
  concurrency: option<number | null>(
    '--concurrency <number>',
    'requests that may be under way at once',
    null,
    whole(1),
  ),
  rateHeaders: option<RateDialect>('--rate-headers <form>', listed(RATE_DIALECTS), 'ietf', oneOf(RATE_DIALECTS)),
  retryAfter: option<RetryAfterForm>(
    '--retry-after <form>',
    listed(RETRY_AFTER_FORMS),
    'seconds',
    oneOf(RETRY_AFTER_FORMS),
  ),
  report: option<readonly string[]>('--report <names>', 'reports by day, as traffic,sales', [], names),
  restate: option('--restate <days>', 'figures of a report change so long after their day', 3, whole(0)),
  windowCap: option<number | null>('--window-cap <rows>', 'rows that a report lists per query', null, whole(1)),
  reportZone: option('--report-zone <zone>', 'time zone of the days of reports', 'UTC', zone),
  reportStart: option('--report-start <day>', 'first day of reports', '2025-01-01', day),
  reportPosts: option('--report-posts <number>', 'posts with a page of their own in reports', 0, whole(0)),
  seed: option('--seed <number>', 'other figures in reports', 1, whole(0)),
  webhookRetry: option('--webhook-retry <time>', 'wait before a webhook is sent again; doubles', 1_000, time),
  gzip: option<boolean>('--gzip', 'compress answers for clients that take it', false),
  maxBody: option('--max-body <bytes>', 'largest body of a request', MIB, whole(1)),
  cache: option('--cache <MiB>', 'memory for ready-made pages', 256 * MIB, (text, flag) => mebibytes(text, flag) * MIB),
  fault: option<readonly FaultScript[]>(
    '--fault <script>',
    'go wrong on cue, as status:503,resource=content,nth=3; may be repeated',
    [],
    (text, _flag, before) => [...before, parseFault(text)],
  ),
};

/** All settings of a sandbox; sizes in bytes, `tokenLifetime` in seconds, other times in milliseconds. */
export type SandboxSettings = {
  readonly [K in keyof typeof SANDBOX_OPTIONS]: (typeof SANDBOX_OPTIONS)[K]['fallback'];
};

/** The given settings, with defaults for the others. */
export function settingsFrom(given: Partial<SandboxSettings>): SandboxSettings {
  const defaults = Object.entries(SANDBOX_OPTIONS).map(([name, declaration]) => [name, declaration.fallback]);
  return { ...Object.fromEntries(defaults), ...given };
}

function option<T>(flag: string, about: string, fallback: T, parse?: Parse<T>): OptionDeclaration<T> {
  const name = flag.replace(/ .*/, '');
  return parse === undefined
    ? { flag, about, fallback }
    : { flag, about, fallback, parse: (text, before) => parse(text, name, before) };
}

function asText(text: string): string {
  return text;
}

function listed(values: readonly string[]): string {
  return values.join(', ');
}

function oneOf<T extends string>(values: readonly T[]): (text: string, flag: string) => T {
  return (text, flag) => {
    const found = values.find((value) => value === text);
    if (found !== undefined) return found;
    throw new ConfigError('usage', `${flag} cannot be "${text}".`, { hint: `Choose one of: ${listed(values)}.` });
  };
}

function whole(least: number, most = Number.MAX_SAFE_INTEGER): (text: string, flag: string) => number {
  return (text, flag) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
    throw new ConfigError('usage', `${flag} must be a whole number ${range}, not "${text}".`);
  };
}

function positive(text: string, flag: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value > 0) return value;
  throw new ConfigError('usage', `${flag} must be a number above 0, not "${text}".`);
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function time(text: string, flag: string): number {
  const [, amount, unit = 'ms'] = /^(-?\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? [];
  if (amount !== undefined) return Number(amount) * (UNITS[unit] ?? 1);
  throw new ConfigError('usage', `${flag} must be a time such as 250ms, 90s or 1h, not "${text}".`);
}

function zone(text: string, flag: string): string {
  if (isTimeZone(text)) return text;
  throw new ConfigError('usage', `${flag} must be a time zone such as Europe/Zurich or +02:00, not "${text}".`);
}

function day(text: string, flag: string): string {
  if (/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new ConfigError('usage', `${flag} must be a day such as 2025-01-01, not "${text}".`);
}

function names(text: string, flag: string): readonly string[] {
  const found = text.split(',').map((name) => name.trim());
  if (found.every((name) => /^[a-z][a-z0-9_-]*$/.test(name))) return found;
  throw new ConfigError('usage', `${flag} cannot read "${text}".`, { hint: 'Write traffic,sales.' });
}

function counts(text: string): Readonly<Record<string, number>> {
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
