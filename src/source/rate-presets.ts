const RETRY_AFTER = { name: 'retry-after', means: 'retry_after' };
const IETF = [
  { name: 'ratelimit', means: 'ratelimit' },
  { name: 'ratelimit-policy', means: 'ratelimit_policy' },
];

/** `<prefix>-limit`, `-remaining` and `-reset`; `rest` holds further fields of all three. */
function triple(prefix: string, unit: string, rest: object = {}): object[] {
  return [
    { name: `${prefix}-limit`, means: 'limit', ...rest },
    { name: `${prefix}-remaining`, means: 'remaining', ...rest },
    { name: `${prefix}-reset`, means: 'reset', unit, ...rest },
  ];
}

/** The same with the words in the other order, `<prefix>-limit-<what>`. */
function tripleOf(prefix: string, what: string, unit: string, rest: object = {}): object[] {
  return [
    { name: `${prefix}-limit-${what}`, means: 'limit', group: what, ...rest },
    { name: `${prefix}-remaining-${what}`, means: 'remaining', group: what, ...rest },
    { name: `${prefix}-reset-${what}`, means: 'reset', unit, group: what, ...rest },
  ];
}

const DAY_MS = 86_400_000;

/**
 * The dialects known by name, as input of `rateDialectSchema`. Sources: RFC 9110 section 10.2.3,
 * draft-ietf-httpapi-ratelimit-headers (06, 07, 11) and the vendors' own pages.
 */
export const RATE_PRESETS = {
  auto: {
    headers: [
      RETRY_AFTER,
      ...IETF,
      ...triple('ratelimit', 'auto', { group: 'ratelimit' }),
      ...triple('x-ratelimit', 'auto', { group: 'x-ratelimit' }),
      ...triple('x-rate-limit', 'auto', { group: 'x-rate-limit' }),
    ],
  },
  ietf: { headers: [RETRY_AFTER, ...IETF] },
  'ietf-draft7': { headers: [RETRY_AFTER, ...IETF] },
  legacy: {
    headers: [
      RETRY_AFTER,
      ...triple('ratelimit', 's', { group: 'ratelimit' }),
      ...triple('x-ratelimit', 's', { group: 'x-ratelimit' }),
    ],
  },
  github: {
    headers: [
      RETRY_AFTER,
      ...triple('x-ratelimit', 'epoch_s'),
      { name: 'x-ratelimit-used', means: 'used' },
      { name: 'x-ratelimit-resource', means: 'bucket' },
    ],
    limited_wait_ms: 60_000,
  },
  twitter: { headers: [RETRY_AFTER, ...triple('x-rate-limit', 'epoch_s')] },
  shopify: {
    headers: [RETRY_AFTER, { name: 'x-shopify-shop-api-call-limit', means: 'used_of_limit', refill: 2 }],
  },
  contentful: {
    headers: [
      RETRY_AFTER,
      { name: 'x-contentful-ratelimit-reset', means: 'wait', unit: 's' },
      { name: 'x-contentful-ratelimit-second-limit', means: 'limit', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-second-remaining', means: 'remaining', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-hour-limit', means: 'limit', group: 'hour', window_ms: 3_600_000 },
      { name: 'x-contentful-ratelimit-hour-remaining', means: 'remaining', group: 'hour', window_ms: 3_600_000 },
    ],
  },
  discord: {
    headers: [
      RETRY_AFTER,
      { name: 'x-ratelimit-reset-after', means: 'reset', unit: 's' },
      ...triple('x-ratelimit', 'epoch_s'),
      { name: 'x-ratelimit-bucket', means: 'bucket' },
    ],
    body: [{ path: 'retry_after', means: 'wait', unit: 's' }],
  },
  kong: {
    headers: [
      RETRY_AFTER,
      ...triple('ratelimit', 's'),
      { name: 'x-ratelimit-limit-{window}', means: 'limit' },
      { name: 'x-ratelimit-remaining-{window}', means: 'remaining' },
    ],
  },
  hubspot: {
    headers: [
      RETRY_AFTER,
      { name: 'x-hubspot-ratelimit-max', means: 'limit' },
      { name: 'x-hubspot-ratelimit-remaining', means: 'remaining' },
      { name: 'x-hubspot-ratelimit-interval-milliseconds', means: 'window', unit: 'ms' },
      { name: 'x-hubspot-ratelimit-daily', means: 'limit', group: 'day', window_ms: DAY_MS },
      { name: 'x-hubspot-ratelimit-daily-remaining', means: 'remaining', group: 'day', window_ms: DAY_MS },
    ],
  },
  stripe: { headers: [RETRY_AFTER] },
  openai: {
    headers: [
      RETRY_AFTER,
      { name: 'retry-after-ms', means: 'wait', unit: 'ms' },
      ...tripleOf('x-ratelimit', 'requests', 'duration'),
      ...tripleOf('x-ratelimit', 'tokens', 'duration', { requests: false }),
    ],
  },
  atlassian: { headers: [RETRY_AFTER, ...triple('x-ratelimit', 'iso')] },
  linear: {
    headers: [
      RETRY_AFTER,
      ...triple('x-ratelimit-requests', 'epoch_ms', { group: 'requests' }),
      ...triple('x-ratelimit-complexity', 'epoch_ms', { group: 'complexity', requests: false }),
    ],
  },
  azure: {
    headers: [
      RETRY_AFTER,
      { name: 'retry-after-ms', means: 'wait', unit: 'ms' },
      { name: 'x-ms-retry-after-ms', means: 'wait', unit: 'ms' },
      { name: 'x-amz-retry-after', means: 'wait', unit: 's' },
    ],
  },
  kontent: {
    headers: [RETRY_AFTER],
    known_limits: [
      { requests: 10, window_ms: 1_000 },
      { requests: 400, window_ms: 60_000 },
    ],
  },
  reddit: {
    headers: [
      RETRY_AFTER,
      { name: 'x-ratelimit-used', means: 'used' },
      { name: 'x-ratelimit-remaining', means: 'remaining' },
      { name: 'x-ratelimit-reset', means: 'reset', unit: 's' },
    ],
  },
  'body-throttle': {
    headers: [RETRY_AFTER],
    body: [
      { path: 'extensions.cost.throttleStatus.maximumAvailable', means: 'limit' },
      { path: 'extensions.cost.throttleStatus.currentlyAvailable', means: 'remaining' },
      { path: 'extensions.cost.throttleStatus.restoreRate', means: 'refill' },
    ],
  },
  none: { headers: [RETRY_AFTER] },
} satisfies Record<string, object>;

/** A name that a profile's `rate_limit` may hold instead of a description. */
export type RatePreset = keyof typeof RATE_PRESETS;

export const RATE_PRESET_NAMES = Object.keys(RATE_PRESETS).filter((name): name is RatePreset => name in RATE_PRESETS);
