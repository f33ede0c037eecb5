import { describe, expect, it } from 'vitest';
import { checkValue } from '../../../src/config/file/check-value.ts';
import { SIGNATURE_PRESET_NAMES } from '../../../src/config/profile/signature-presets.ts';
import { needsPublicUrl, signatureSchema } from '../../../src/config/profile/signature-scheme.ts';

/** What a person reads who writes a profile. */
function faults(value: unknown): string[] {
  const { findings } = checkValue(signatureSchema, value, new Set());
  return (findings ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

describe('signature schemes', () => {
  it.for(SIGNATURE_PRESET_NAMES)('the preset %s can be used, and be a base', (name) => {
    expect(signatureSchema.parse({ base: name })).toEqual(signatureSchema.parse(name));
  });

  it.for(SIGNATURE_PRESET_NAMES)('a time that the preset %s signs counts in both directions', (name) => {
    const { timestamp } = signatureSchema.parse(name);
    if (timestamp === null) return;
    expect(timestamp.past).toBeGreaterThanOrEqual(300_000);
    expect(timestamp.future).toBe(300_000);
  });

  it('SHA-1 is used only for senders that know nothing else', () => {
    const weak = SIGNATURE_PRESET_NAMES.filter((name) =>
      signatureSchema.parse(name).methods.some(({ algorithm }) => algorithm === 'sha1'),
    );
    expect(weak).toEqual(['github-sha1', 'storyblok', 'vercel']);
  });

  it('the address is needed by those that sign it', () => {
    const needing = SIGNATURE_PRESET_NAMES.filter((name) => needsPublicUrl(signatureSchema.parse(name)));
    expect(needing).toEqual(['hubspot']);
  });

  it('one of its own lies over a preset field by field', () => {
    const own = { base: 'stripe', value: { from: 'header:X-Own' }, timestamp: { past: '10m' }, id: 'header:X-Id' };
    const stripe = signatureSchema.parse('stripe');
    expect(signatureSchema.parse(own)).toEqual({
      ...stripe,
      value: { ...stripe.value, from: { from: 'header', name: 'x-own' } },
      timestamp: { ...stripe.timestamp, past: 600_000 },
      id: { from: 'header', name: 'x-id' },
    });
  });
});

const OWN = { type: 'hmac', value: { from: 'header:x-signature' }, signed: '{body}' };
const TIMED = { ...OWN, timestamp: { from: 'header:x-time' }, signed: '{ts}.{body}' };

describe('a scheme that cannot be meant so', () => {
  it.for<[string, unknown, string]>([
    ['an unknown name', 'strip', ': expected one of standard-webhooks, svix'],
    ['nothing', {}, 'type: expected a type (hmac, ed25519, static or basic), or a base that has one'],
    ['an unknown field', { ...OWN, algorythm: 'sha256' }, 'got the unknown key "algorythm"'],
    ['no place', { type: 'hmac', signed: '{body}' }, 'value.from: expected the place of the signature'],
    [
      'a place in the body',
      { ...OWN, value: { from: 'json:sig' } },
      'value.from: expected header:<name>: only a secret',
    ],
    ['no template', { type: 'hmac', value: OWN.value }, 'signed: expected what is signed'],
    ['a template for a static secret', { ...OWN, type: 'static' }, 'signed: expected no template'],
    ['a body that is not signed', { ...OWN, signed: '{method}' }, 'signed: expected a template that covers the body'],
    ['a time that is not signed', { ...TIMED, signed: '{body}' }, 'signed: expected {ts} in the template'],
    ['a time from nowhere', { ...OWN, signed: '{ts}{body}' }, 'timestamp: expected the place of the timestamp'],
    ['an unknown token', { ...OWN, signed: '{time}.{body}' }, 'signed: expected tokens out of {id} {ts} {body}'],
    ['an id from nowhere', { ...OWN, signed: '{id}.{body}' }, 'id: expected the place of the id that is signed'],
    [
      'an id without a border',
      { ...OWN, id: 'header:x-id', signed: '{id}{body}' },
      'signed: expected text between {id}',
    ],
    ['SHA-1', { ...OWN, algorithm: 'sha1' }, 'algorithm: expected sha256 or better, or allow_weak: true'],
    ['a public key as text', { ...OWN, type: 'ed25519' }, 'key_encoding: expected hex, base64 or whpk'],
    ['items without a name', { ...OWN, value: { ...OWN.value, parse: 'kv' } }, 'item: expected the name of the items'],
    ['parts of a plain header', { ...TIMED, timestamp: { from: 'part:t' } }, 'value.parse: expected kv'],
    ['two methods under one name', { base: 'standard-webhooks', item: 'v1a' }, 'also: expected methods of a header'],
    ['a prefix of items', { base: 'stripe', value: { prefix: 'x' } }, 'value.prefix: expected a prefix only if'],
    [
      'no tolerance',
      { ...TIMED, timestamp: { from: 'header:x-time', past: '0s' } },
      'timestamp.past: expected a tolerance of',
    ],
    [
      'signed headers from nowhere',
      { ...OWN, signed: '{signed_headers}{body}' },
      'signed_headers: expected from and a list',
    ],
    ['a family of nobody', { ...OWN, families: ['a'] }, 'families: expected families where header names hold {family}'],
  ])('%s', ([, value, expected]) => {
    expect(faults(value).join('\n')).toContain(expected);
  });
});
