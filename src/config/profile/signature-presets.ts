/**
 * The webhook signature schemes of known services, by name: a profile writes `signature: github` in place of a description.
 */
const HMAC = { type: 'hmac', algorithm: 'sha256' };
const HMAC_OF_BODY = { ...HMAC, signed: '{body}' };

/** `<header>: <hex of HMAC-SHA1 over the body>`, for senders that support only SHA-1. */
function sha1OfBody(header: string): object {
  return { ...HMAC_OF_BODY, algorithm: 'sha1', allow_weak: true, value: { from: `header:${header}`, encoding: 'hex' } };
}

/**
 * The named schemes, as input of `signatureSchema`. Sources: Standard Webhooks 1.0.0 and the vendors' own
 * pages and libraries. Where a vendor names no tolerance it is 5 minutes, or as long as it repeats a delivery.
 */
export const SIGNATURE_PRESETS = {
  'standard-webhooks': {
    ...HMAC,
    key_encoding: 'whsec',
    item: 'v1',
    also: [{ type: 'ed25519', key_encoding: 'whpk', item: 'v1a' }],
    families: ['webhook', 'svix'],
    value: { from: 'header:{family}-signature', parse: 'list', separator: ' ', encoding: 'base64' },
    timestamp: { from: 'header:{family}-timestamp', unit: 's' },
    id: 'header:{family}-id',
    signed: '{id}.{ts}.{body}',
  },
  svix: { base: 'standard-webhooks', families: ['svix', 'webhook'] },
  stripe: {
    ...HMAC,
    item: 'v1',
    value: { from: 'header:stripe-signature', parse: 'kv', separator: ',', encoding: 'hex' },
    timestamp: { from: 'part:t', unit: 's' },
    id: 'json:id',
    signed: '{ts}.{body}',
  },
  github: {
    ...HMAC_OF_BODY,
    value: { from: 'header:x-hub-signature-256', prefix: 'sha256=', encoding: 'hex' },
    id: 'header:x-github-delivery',
  },
  'github-sha1': {
    base: 'github',
    algorithm: 'sha1',
    allow_weak: true,
    value: { from: 'header:x-hub-signature', prefix: 'sha1=' },
  },
  shopify: {
    ...HMAC_OF_BODY,
    families: ['x-shopify', 'shopify'],
    value: { from: 'header:{family}-hmac-sha256', encoding: 'base64' },
    id: 'header:{family}-webhook-id',
  },
  contentful: {
    ...HMAC,
    value: { from: 'header:x-contentful-signature', encoding: 'hex' },
    timestamp: { from: 'header:x-contentful-timestamp', unit: 'ms' },
    id: 'header:x-contentful-idempotency-key',
    signed: '{method}\n{path}\n{signed_headers}\n{body}',
    signed_headers: {
      from: 'header:x-contentful-signed-headers',
      required: ['x-contentful-signed-headers', 'x-contentful-timestamp', 'x-contentful-topic'],
    },
  },
  sanity: {
    ...HMAC,
    item: 'v1',
    value: { from: 'header:sanity-webhook-signature', parse: 'kv', separator: [',', ' '], encoding: 'base64url' },
    timestamp: { from: 'part:t', unit: 'ms', past: '1h' },
    id: 'header:idempotency-key',
    signed: '{ts}.{body}',
  },
  // Neither signs deliveries: configure the webhook there with a header that contains the secret.
  strapi: { base: 'bearer' },
  directus: { base: 'bearer' },
  ghost: {
    ...HMAC,
    item: 'sha256',
    value: { from: 'header:x-ghost-signature', parse: 'kv', separator: [', ', ','], encoding: 'hex' },
    timestamp: { from: 'part:t', unit: 'ms' },
    signed: '{body}{ts}',
  },
  // Without timestamp, because the one that is sent is not signed.
  'ghost-legacy': { base: 'ghost', timestamp: null, signed: '{body}' },
  slack: {
    ...HMAC,
    value: { from: 'header:x-slack-signature', prefix: 'v0=', encoding: 'hex' },
    timestamp: { from: 'header:x-slack-request-timestamp', unit: 's' },
    id: 'json:event_id',
    signed: 'v0:{ts}:{body}',
    challenge: 'slack',
  },
  hubspot: {
    ...HMAC,
    value: { from: 'header:x-hubspot-signature-v3', encoding: 'base64' },
    timestamp: { from: 'header:x-hubspot-request-timestamp', unit: 'ms' },
    signed: '{method}{url}{body}{ts}',
  },
  discord: {
    type: 'ed25519',
    key_encoding: 'hex',
    value: { from: 'header:x-signature-ed25519', encoding: 'hex' },
    timestamp: { from: 'header:x-signature-timestamp', unit: 's' },
    signed: '{ts}{body}',
    challenge: 'discord',
  },
  // The header has the name of that of Standard Webhooks, with another content.
  storyblok: sha1OfBody('webhook-signature'),
  'kontent-ai': { ...HMAC_OF_BODY, value: { from: 'header:x-kc-signature', encoding: 'base64' } },
  webflow: {
    ...HMAC,
    value: { from: 'header:x-webflow-signature', encoding: 'hex' },
    timestamp: { from: 'header:x-webflow-timestamp', unit: 'ms' },
    signed: '{ts}:{body}',
  },
  vercel: { ...sha1OfBody('x-vercel-signature'), id: 'json:id' },
  prismic: { type: 'static', value: { from: 'json:secret' } },
  meta: { base: 'github', id: 'sha256:body', challenge: 'meta' },
  zoom: {
    ...HMAC,
    value: { from: 'header:x-zm-signature', prefix: 'v0=', encoding: 'hex' },
    timestamp: { from: 'header:x-zm-request-timestamp', unit: 's' },
    signed: 'v0:{ts}:{body}',
    challenge: 'zoom',
  },
  bearer: { type: 'static', value: { from: 'header:authorization', prefix: 'Bearer ' } },
  basic: { type: 'basic', value: { from: 'header:authorization', prefix: 'Basic ' } },
  'static-header': { type: 'static', value: { from: 'header:x-api-key' } },
  'query-token': { type: 'static', value: { from: 'query:token' } },
} satisfies Record<string, object>;

/** The names that `webhooks.signature` of a profile may hold instead of a description. */
export const SIGNATURE_PRESET_NAMES = Object.keys(SIGNATURE_PRESETS).filter(
  (name): name is keyof typeof SIGNATURE_PRESETS => name in SIGNATURE_PRESETS,
);
