/**
 * The field `rate_limit` of a profile: in which headers and body fields a service states its limits, such as
 * `X-RateLimit-Remaining: 12`. A profile names a preset (`github`), or lists the fields.
 */
import { z } from 'zod';

/** Returns `<prefix>-limit`, `-remaining` and `-reset`, and `X-RateLimit-Limit-Day` etc., each window a separate quota. */
function headerFamily(prefix: string, group: string = prefix): object[] {
  return [
    { name: `${prefix}-limit`, means: 'limit', group },
    { name: `${prefix}-remaining`, means: 'remaining', group },
    { name: `${prefix}-reset`, means: 'reset', group },
    { name: `${prefix}-limit-{window}`, means: 'limit', group },
    { name: `${prefix}-remaining-{window}`, means: 'remaining', group },
  ];
}

const DAY_MS = 86_400_000;

/**
 * The named dialects, as input of `rateDialectSchema`; each reads `Retry-After` too. Sources: RFC 9110
 * section 10.2.3, draft-ietf-httpapi-ratelimit-headers (06, 07, 11) and the vendors' own pages.
 */
const RATE_PRESETS = {
  auto: {
    headers: [
      { name: 'ratelimit', means: 'ratelimit' },
      { name: 'ratelimit-policy', means: 'ratelimit_policy' },
      ...['ratelimit', 'x-ratelimit', 'x-rate-limit'].flatMap((prefix) => headerFamily(prefix)),
    ],
  },
  github: {
    headers: [...headerFamily('x-ratelimit', 'default'), { name: 'x-ratelimit-resource', means: 'bucket' }],
    limited_wait_ms: 60_000,
  },
  shopify: { headers: [{ name: 'x-shopify-shop-api-call-limit', means: 'used_of_limit', refill: 2 }] },
  contentful: {
    headers: [
      { name: 'x-contentful-ratelimit-reset', means: 'wait' },
      { name: 'x-contentful-ratelimit-second-limit', means: 'limit', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-second-remaining', means: 'remaining', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-hour-limit', means: 'limit', group: 'hour', window_ms: 3_600_000 },
      { name: 'x-contentful-ratelimit-hour-remaining', means: 'remaining', group: 'hour', window_ms: 3_600_000 },
    ],
  },
  hubspot: {
    headers: [
      { name: 'x-hubspot-ratelimit-max', means: 'limit' },
      { name: 'x-hubspot-ratelimit-remaining', means: 'remaining' },
      { name: 'x-hubspot-ratelimit-interval-milliseconds', means: 'window', unit: 'ms' },
      { name: 'x-hubspot-ratelimit-daily', means: 'limit', group: 'day', window_ms: DAY_MS },
      { name: 'x-hubspot-ratelimit-daily-remaining', means: 'remaining', group: 'day', window_ms: DAY_MS },
    ],
  },
  kontent: {
    known_limits: [
      { requests: 10, window_ms: 1_000 },
      { requests: 400, window_ms: 60_000 },
    ],
  },
  'body-throttle': {
    body: [
      { path: 'extensions.cost.throttleStatus.maximumAvailable', means: 'limit' },
      { path: 'extensions.cost.throttleStatus.currentlyAvailable', means: 'remaining' },
      { path: 'extensions.cost.throttleStatus.restoreRate', means: 'refill' },
    ],
  },
  none: {},
} satisfies Record<string, object>;

export const RATE_PRESET_NAMES = Object.keys(RATE_PRESETS).filter(
  (name): name is keyof typeof RATE_PRESETS => name in RATE_PRESETS,
);

const RATE_MEANINGS = [
  /** The wait until the next request; overrides all other fields. */
  'retry_after',
  /** The same in a vendor's field; counts only without `retry_after` and an exhausted quota with a reset. */
  'wait',
  /** Requests per window; `10, 10;w=1, 1000;w=3600` is read as draft-ietf-httpapi-ratelimit-headers-06 meant it. */
  'limit',
  'remaining',
  /** Used requests and limit: `32/40`. */
  'used_of_limit',
  /** When the window ends. */
  'reset',
  /** Length of the window. */
  'window',
  /** Requests per second by which the quota is refilled. */
  'refill',
  /** Name of the quota that the request counted against. */
  'bucket',
  /** The structured `RateLimit` field: the current list, or the dictionary of draft 7. */
  'ratelimit',
  'ratelimit_policy',
] as const;

const meaning = {
  means: z.enum(RATE_MEANINGS),
  /** How a time is written. `auto` distinguishes delta seconds from a Unix time by size, and reads dates and durations. */
  unit: z.enum(['auto', 'ms']).default('auto'),
  /** Entries of one group describe the same quota; a service with several limits has several groups. */
  group: z.string().min(1).default('default'),
  /** Length of the group's window in milliseconds, if the service does not send it. */
  window_ms: z.number().positive().optional(),
  /** Requests per second by which the quota is refilled, if the service does not send it. */
  refill: z.number().positive().optional(),
  /** False if the group counts something else (tokens, bytes): then it only matters when exhausted. */
  requests: z.boolean().default(true),
};

const headerEntry = z
  .strictObject({ name: z.string().min(1), ...meaning })
  .transform(({ name, ...rest }) => ({ at: name.toLowerCase(), ...rest }));

const bodyEntry = z
  .strictObject({ path: z.string().min(1), ...meaning })
  .transform(({ path, ...rest }) => ({ at: path, ...rest }));

const customSchema = z.strictObject({
  /** Preset to extend; an entry given here replaces the preset's entry for the same header. */
  base: z.enum(RATE_PRESET_NAMES).default('auto'),
  /** `name` in any case; `{window}` in it matches second, minute, hour, day or month. */
  headers: z.array(headerEntry).prefault([]),
  body: z.array(bodyEntry).prefault([]),
  /** Limits that the service documents but does not send. */
  known_limits: z
    .array(z.strictObject({ requests: z.number().positive(), window_ms: z.number().positive() }))
    .default([]),
  /** Min wait in milliseconds after a 429 that states none. */
  limited_wait_ms: z.number().min(0).optional(),
});

type CustomDialect = z.output<typeof customSchema>;

/** The name of a preset, or a dialect as data; parsed to a `RateDialect`. */
export const rateDialectSchema = z
  .union([z.enum(RATE_PRESET_NAMES), customSchema])
  .transform((given) => extendPreset(typeof given === 'string' ? customSchema.parse({ base: given }) : given));

/** One header (`at` is its lower-case name, possibly with `{window}`) or one body field (`at` is its path). */
export type RateEntry = CustomDialect['headers'][number];

/** How a service states its limits; every entry is read in every answer. */
export type RateDialect = z.output<typeof rateDialectSchema>;

const LIMITED_WAIT_MS = 1_000;

const RETRY_AFTER = { name: 'retry-after', means: 'retry_after' };

/** Adds the entries of the preset on which the dialect is based. */
function extendPreset(custom: CustomDialect) {
  const preset = RATE_PRESETS[custom.base];
  const headers = [RETRY_AFTER, ...('headers' in preset ? preset.headers : [])];
  const base = customSchema.parse({ ...preset, headers });
  return {
    headers: mergeEntries(custom.headers, base.headers),
    body: mergeEntries(custom.body, base.body),
    known_limits: [...custom.known_limits, ...base.known_limits],
    limited_wait_ms: custom.limited_wait_ms ?? base.limited_wait_ms ?? LIMITED_WAIT_MS,
  };
}

function mergeEntries(custom: readonly RateEntry[], base: readonly RateEntry[]): RateEntry[] {
  const replaced = new Set(custom.map((entry) => entry.at));
  return [...custom, ...base.filter((entry) => !replaced.has(entry.at))];
}
