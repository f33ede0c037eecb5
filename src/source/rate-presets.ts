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

/** `X-RateLimit-Limit-Day` and `-Remaining-Day`, and those of other windows. */
function byWindow(prefix: string, rest: object = {}): object[] {
  return [
    { name: `${prefix}-limit-{window}`, means: 'limit', ...rest },
    { name: `${prefix}-remaining-{window}`, means: 'remaining', ...rest },
  ];
}

const DAY_MS = 86_400_000;

/**
 * The dialects known by name, as input of `rateDialectSchema`; each knows `Retry-After` besides. Sources: RFC 9110
 * section 10.2.3, draft-ietf-httpapi-ratelimit-headers (06, 07, 11) and the vendors' own pages.
 */
export const RATE_PRESETS = {
  auto: {
    headers: [
      ...IETF,
      ...['ratelimit', 'x-ratelimit', 'x-rate-limit'].flatMap((prefix) => triple(prefix, 'auto', { group: prefix })),
      ...['ratelimit', 'x-ratelimit'].flatMap((prefix) => byWindow(prefix, { group: prefix })),
    ],
  },
  ietf: { headers: IETF },
  'ietf-draft7': { headers: IETF },
  legacy: {
    headers: ['ratelimit', 'x-ratelimit'].flatMap((prefix) => triple(prefix, 's', { group: prefix })),
  },
  github: {
    headers: [
      ...triple('x-ratelimit', 'epoch_s'),
      { name: 'x-ratelimit-used', means: 'used' },
      { name: 'x-ratelimit-resource', means: 'bucket' },
    ],
    limited_wait_ms: 60_000,
  },
  twitter: { headers: triple('x-rate-limit', 'epoch_s') },
  shopify: { headers: [{ name: 'x-shopify-shop-api-call-limit', means: 'used_of_limit', refill: 2 }] },
  contentful: {
    headers: [
      { name: 'x-contentful-ratelimit-reset', means: 'wait', unit: 's' },
      { name: 'x-contentful-ratelimit-second-limit', means: 'limit', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-second-remaining', means: 'remaining', group: 'second', window_ms: 1_000 },
      { name: 'x-contentful-ratelimit-hour-limit', means: 'limit', group: 'hour', window_ms: 3_600_000 },
      { name: 'x-contentful-ratelimit-hour-remaining', means: 'remaining', group: 'hour', window_ms: 3_600_000 },
    ],
  },
  discord: {
    headers: [
      { name: 'x-ratelimit-reset-after', means: 'reset', unit: 's' },
      ...triple('x-ratelimit', 'epoch_s'),
      { name: 'x-ratelimit-bucket', means: 'bucket' },
    ],
    body: [{ path: 'retry_after', means: 'wait', unit: 's' }],
  },
  kong: {
    headers: [...triple('ratelimit', 's'), ...byWindow('x-ratelimit')],
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
  stripe: {},
  openai: {
    headers: [
      { name: 'retry-after-ms', means: 'wait', unit: 'ms' },
      ...tripleOf('x-ratelimit', 'requests', 'duration'),
      ...tripleOf('x-ratelimit', 'tokens', 'duration', { requests: false }),
    ],
  },
  atlassian: { headers: triple('x-ratelimit', 'iso') },
  linear: {
    headers: [
      ...triple('x-ratelimit-requests', 'epoch_ms', { group: 'requests' }),
      ...triple('x-ratelimit-complexity', 'epoch_ms', { group: 'complexity', requests: false }),
    ],
  },
  azure: {
    headers: [
      { name: 'retry-after-ms', means: 'wait', unit: 'ms' },
      { name: 'x-ms-retry-after-ms', means: 'wait', unit: 'ms' },
      { name: 'x-amz-retry-after', means: 'wait', unit: 's' },
    ],
  },
  kontent: {
    known_limits: [
      { requests: 10, window_ms: 1_000 },
      { requests: 400, window_ms: 60_000 },
    ],
  },
  reddit: {
    headers: [
      { name: 'x-ratelimit-used', means: 'used' },
      { name: 'x-ratelimit-remaining', means: 'remaining' },
      { name: 'x-ratelimit-reset', means: 'reset', unit: 's' },
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

/** A name that a profile's `rate_limit` may hold instead of a description. */
export type RatePreset = keyof typeof RATE_PRESETS;

export const RATE_PRESET_NAMES = Object.keys(RATE_PRESETS).filter((name): name is RatePreset => name in RATE_PRESETS);
