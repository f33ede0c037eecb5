import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { signDelivery, type DeliveryDraft, type SignedDelivery } from '../../support/sign-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';
import type { Delivery } from '../../../src/server/signature/delivery.ts';

const NOW = 1_760_000_000_000;
const PUBLIC = 'https://hooks.example.com/webhooks/blog';
const SECRET = { value: 'a-secret-of-the-sender' };

const draft: DeliveryDraft = {
  body: Buffer.from('{"type":"entry.published","id":"evt_1","title":"Zażółć ✓"}'),
  id: 'msg_1',
  at: NOW,
  method: 'POST',
  path: '/webhooks/blog?x=1&y=a%20b',
  publicUrl: PUBLIC,
  headers: { 'x-contentful-topic': 'ContentManagement.Entry.publish' },
};

function signed(preset: string, change: Partial<DeliveryDraft> = {}): SignedDelivery {
  return signDelivery(signatureSchema.parse(preset), SECRET, { ...draft, ...change });
}

function reason(scheme: unknown, delivery: Delivery, publicUrl: string | null = PUBLIC): string {
  const verdict = createVerifier(signatureSchema.parse(scheme), [SECRET], publicUrl)(delivery, NOW);
  return verdict.ok ? 'ok' : verdict.reason;
}

const OVER_BYTES = ['github', 'shopify', 'stripe', 'ghost', 'slack', 'sanity', 'webflow', 'kontent-ai'];

describe('signatures over bytes', () => {
  const odd = {
    'invalid UTF-8': Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff, 0xfe, 0xc0, 0x80]), Buffer.from('"}')]),
    'a byte order mark': Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{}')]),
    'a lone surrogate': Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
  };

  it.for(Object.entries(odd))('F167 hold for a body with %s, and not for what a decoder makes of it', ([, body]) => {
    for (const preset of OVER_BYTES) {
      const delivery = signed(preset, { body });
      const decoded = Buffer.from(new TextDecoder().decode(body));
      expect([preset, reason(preset, delivery)]).toEqual([preset, 'ok']);
      expect([preset, reason(preset, { ...delivery, body: decoded })]).toEqual([preset, 'bad_signature']);
    }
  });

  it.for(OVER_BYTES)('F166 are broken by every single byte of the body: %s', (preset) => {
    const delivery = signed(preset);
    for (let at = 0; at < delivery.body.length; at++) {
      const body = Buffer.from(delivery.body);
      body[at] = (body[at] ?? 0) ^ 0x20;
      expect(reason(preset, { ...delivery, body })).toBe('bad_signature');
    }
  });
});

describe('headers that a delivery lists as signed', () => {
  const delivery = signed('contentful');
  const listed = (delivery.headers['x-contentful-signed-headers'] ?? '').split(',');

  /** Signed with the right key by whoever made the list. */
  function withList(names: readonly string[]): Delivery {
    const { 'x-contentful-signature': _, ...headers } = delivery.headers;
    const all: Record<string, string> = { ...headers, 'x-contentful-signed-headers': names.join(',') };
    const lines = names.toSorted().map((name) => `${name}:${all[name]}`);
    const content = ['POST', draft.path, lines.join(';'), draft.body.toString()].join('\n');
    all['x-contentful-signature'] = createHmac('sha256', SECRET.value).update(content).digest('hex');
    return { ...delivery, headers: all };
  }

  it('F170 are accepted with all that are there', () => {
    expect(reason('contentful', withList(listed))).toBe('ok');
    expect(reason('contentful', withList([...listed].toReversed()))).toBe('ok');
  });

  it.each(['x-contentful-timestamp', 'x-contentful-topic', 'x-contentful-signed-headers'])(
    'F170 must have %s among them, even where the signature is right',
    (name) => {
      expect(reason('contentful', withList(listed.filter((one) => one !== name)))).toBe('bad_content');
    },
  );

  it('F170 count once each, and only if they were sent', () => {
    expect(reason('contentful', withList([...listed, 'content-type']))).toBe('bad_content');
    expect(reason('contentful', withList([...listed, 'x-not-there']))).toBe('bad_content');
    expect(reason('contentful', withList([...listed, 'constructor', '__proto__']))).toBe('bad_content');
  });

  it('F170 are all covered: a changed topic is refused', () => {
    const headers = { ...delivery.headers, 'x-contentful-topic': 'ContentManagement.Entry.delete' };
    expect(reason('contentful', { ...delivery, headers })).toBe('bad_signature');
  });
});

describe('schemes that sign the address', () => {
  const forged = {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'http',
    forwarded: 'host=evil.example',
  };

  it('F185 take it from the settings alone', () => {
    const preset = 'hubspot';
    const delivery = signed(preset);
    const elsewhere = signed(preset, { publicUrl: 'https://evil.example/webhooks/blog' });
    expect(reason(preset, { ...delivery, headers: { ...delivery.headers, ...forged } })).toBe('ok');
    expect(reason(preset, { ...elsewhere, headers: { ...elsewhere.headers, ...forged } })).toBe('bad_signature');
    expect(() => reason(preset, delivery, null)).toThrow('signs the address');
  });
});

describe('a secret that is sent along', () => {
  it('row 22: within the JSON body', () => {
    const scheme = { type: 'static', value: { from: 'json:auth.secret' } };
    const delivery = signDelivery(signatureSchema.parse(scheme), SECRET, draft);
    expect(JSON.parse(delivery.body.toString())).toMatchObject({ id: 'evt_1', auth: { secret: SECRET.value } });
    expect(reason(scheme, delivery)).toBe('ok');
    expect(reason('prismic', { ...delivery, body: Buffer.from(`{"secret":"${SECRET.value}"}`) })).toBe('ok');
    for (const body of [
      '',
      '[]',
      '{"secret":1}',
      '{"secret":null}',
      '{"secret":{}}',
      '{"secret":""}',
      'x',
      '"secret"',
      '\uD800',
    ]) {
      expect(reason('prismic', { ...delivery, body: Buffer.from(body) })).not.toBe('ok');
    }
  });

  it('row 23: in any header, or in the query', () => {
    const inHeader = { type: 'static', value: { from: 'header:X-Webhook-Token' } };
    const headers = { 'x-webhook-token': SECRET.value };
    expect(reason(inHeader, { ...draft, headers })).toBe('ok');
    expect(reason(inHeader, { ...draft, headers: { 'x-webhook-token': `${SECRET.value}x` } })).toBe('bad_signature');
    expect(reason('query-token', { ...draft, headers, path: `/?token=${SECRET.value}` })).toBe('ok');
    for (const query of [
      '',
      '?token=',
      '?token=x',
      `?token=${SECRET.value}&token=${SECRET.value}`,
      `?Token=${SECRET.value}`,
      '?token=%',
    ]) {
      expect(reason('query-token', { ...draft, headers, path: `/${query}` })).not.toBe('ok');
    }
  });
});
