import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookSecret } from '../../../src/config/profile/signature-secret.ts';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { signDelivery, type DeliveryDraft, type SignedDelivery } from '../../support/sign-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';
import type { Delivery, SignatureVerdict } from '../../../src/server/signature/delivery.ts';

const NOW = 1_760_000_000_000;
const KEY = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const SECRET = { value: `whsec_${KEY}` };
const OTHER = { value: `whsec_${Buffer.alloc(24, 5).toString('base64')}` };
const SEED = Buffer.alloc(32, 9).toString('base64');
const STANDARD = signatureSchema.parse('standard-webhooks');

const draft: DeliveryDraft = {
  body: Buffer.from('{"type":"content.updated","data":{"id":"1"}}'),
  id: 'msg_1',
  at: NOW,
  method: 'POST',
  path: '/webhooks/blog',
  publicUrl: null,
};

function signed(change: Partial<DeliveryDraft> = {}, secret: WebhookSecret = SECRET): SignedDelivery {
  return signDelivery(STANDARD, secret, { ...draft, ...change });
}

function verdict(
  delivery: Delivery,
  secrets: readonly WebhookSecret[] = [SECRET],
  now: number = NOW,
): SignatureVerdict {
  return createVerifier(STANDARD, secrets, null)(delivery, now);
}

function reason(delivery: Delivery, secrets?: readonly WebhookSecret[], now?: number): string {
  const said = verdict(delivery, secrets, now);
  return said.ok ? 'ok' : said.reason;
}

function privateKeyOf(seed: string): KeyObject {
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(seed, 'base64')]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

function publicKeyOf(seed: string): string {
  const key = createPublicKey(privateKeyOf(seed));
  return key.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64');
}

/** The same delivery with other headers; undefined takes one away. */
function withHeaders(
  given: Record<string, string | string[] | undefined>,
  delivery: SignedDelivery = signed(),
): Delivery {
  return { ...delivery, headers: { ...delivery.headers, ...given } };
}

const good = signed().headers['webhook-signature'] ?? '';
const text = good.slice('v1,'.length);
const wrong = `v1,${Buffer.alloc(32).toString('base64')}`;
const renamed = Object.fromEntries(
  Object.entries(signed().headers).map(([name, value]) => [name.replace('webhook-', 'svix-'), value]),
);

describe('Standard Webhooks, as its libraries test it', () => {
  it.for<[string, Delivery, string, (readonly WebhookSecret[])?]>([
    ['a valid delivery', signed(), 'ok'],
    ['another signature', withHeaders({ 'webhook-signature': wrong }), 'bad_signature'],
    ['a version without a signature', withHeaders({ 'webhook-signature': 'v1,' }), 'bad_signature_header'],
    ['a signature without a version', withHeaders({ 'webhook-signature': text }), 'bad_signature_header'],
    ['an old timestamp', signed({ at: NOW - 301_000 }), 'too_old'],
    ['a new timestamp', signed({ at: NOW + 301_000 }), 'too_new'],
    ['a timestamp with a fraction', withHeaders({ 'webhook-timestamp': '1760000000.5' }), 'bad_signature'],
    ['several signatures, one of them right', withHeaders({ 'webhook-signature': `${wrong} v2,abc ${good}` }), 'ok'],
    ['a secret without its prefix', signed(), 'ok', [{ value: KEY }]],
    ['the header names of Svix', { ...signed(), headers: renamed }, 'ok'],
    ['another body', { ...signed(), body: Buffer.from('{}') }, 'bad_signature'],
    ['another secret', signed(), 'bad_signature', [OTHER]],
  ])('F160 %s', ([, delivery, expected, secrets]) => {
    expect(reason(delivery, secrets)).toBe(expected);
  });

  it.each(['', 'whsec_', 'whsec_!!!', 'whsec_YQ==', `whsec_${KEY}\n`])('F160 takes no secret like %j', (value) => {
    expect(() => verdict(signed(), [{ value }])).toThrow('a webhook secret cannot be used: expected whsec_');
  });
});

describe('the age of a delivery', () => {
  it.each([
    [300_000, 'ok'],
    [300_001, 'too_old'],
    [-300_000, 'ok'],
    [-300_001, 'too_new'],
  ])('F161 %d ms after it was sent', (ms, expected) => {
    expect(reason(signed(), [SECRET], NOW + ms)).toBe(expected);
  });

  it.each(['1760000000.0', '', '17600000000000000000', '+1760000000', '01760000000'])(
    'F161 is none where a rightly signed timestamp is %j',
    (written) => {
      // What a sender signs that holds the key and writes times in a way of its own.
      const template = [...STANDARD.signed.slice(0, 2), written, ...STANDARD.signed.slice(3)];
      const odd = signDelivery({ ...STANDARD, signed: template }, SECRET, draft);
      expect(reason(withHeaders({ 'webhook-timestamp': written }, odd))).toBe('bad_timestamp');
    },
  );

  it('is judged only where the signature is right, and says so', () => {
    expect(reason({ ...signed(), body: Buffer.from('x') }, [SECRET], NOW + 86_400_000)).toBe('bad_signature');
  });
});

const many = (count: number, last: string): string =>
  [...Array.from({ length: count - 1 }, () => wrong), last].join(' ');

describe('several signatures', () => {
  it.for<[string, string, string]>([
    ['the right one last of 20', many(20, good), 'ok'],
    ['unknown versions around it', `v0,x ${good} v9,y`, 'ok'],
    ['21 of them', many(21, good), 'too_many_signatures'],
    ['one that is no item', `${good} v1`, 'bad_signature_header'],
    ['commas between them, as repeated headers are joined', `${good}, ${good}`, 'bad_signature_header'],
  ])('F163 %s', ([, header, expected]) => {
    expect(reason(withHeaders({ 'webhook-signature': header }))).toBe(expected);
  });

  it('F163 in two headers are refused, whatever they say', () => {
    expect(reason(withHeaders({ 'webhook-signature': [good, good] }))).toBe('no_signature');
    expect(reason(withHeaders({ 'webhook-timestamp': ['1760000000', '1760000000'] }))).toBe('no_timestamp');
    expect(reason(withHeaders({ 'webhook-id': ['msg_1', 'msg_1'] }))).toBe('no_id');
  });
});

describe('several secrets', () => {
  it('F165 are accepted side by side, the old one until its end', () => {
    const secrets = [OTHER, { ...SECRET, until: NOW + 60_000 }];
    const [byNew, byOld] = [signed({}, OTHER), signed()];
    expect([reason(byNew, secrets), reason(byOld, secrets)]).toEqual(['ok', 'ok']);
    expect(reason(byOld, secrets, NOW + 60_000)).toBe('ok');
    expect(reason(byOld, secrets, NOW + 60_001)).toBe('bad_signature');
    expect(reason(byNew, secrets, NOW + 60_001)).toBe('ok');
  });
});

describe('signatures of two kinds', () => {
  const content = Buffer.from(`${draft.id}.${NOW / 1_000}.${draft.body.toString()}`);
  const signature = `v1a,${sign(null, content, privateKeyOf(SEED)).toString('base64')}`;
  const byKeyPair = { ...signed(), headers: { ...signed().headers, 'webhook-signature': signature } };
  const stranger = { value: `whpk_${publicKeyOf(Buffer.alloc(32, 1).toString('base64'))}` };

  it('are told by their version, each by its own key', () => {
    const key = { value: `whpk_${publicKeyOf(SEED)}` };
    expect(reason(byKeyPair, [key])).toBe('ok');
    expect(reason(byKeyPair, [SECRET, key])).toBe('ok');
    expect(reason(signed(), [SECRET, key])).toBe('ok');
    expect(reason(byKeyPair, [stranger])).toBe('bad_signature');
  });

  it('F169 are not taken for one another', () => {
    expect(reason(byKeyPair, [SECRET])).toBe('bad_signature');
    const asV1 = signature.replace('v1a', 'v1');
    expect(reason(withHeaders({ 'webhook-signature': asV1 }, byKeyPair), [SECRET])).toBe('bad_signature');
    // The public key is no secret: whoever signs with it as one must not be believed.
    const forged = signed({}, { value: publicKeyOf(SEED) }).headers['webhook-signature'] ?? '';
    const delivery = withHeaders({ 'webhook-signature': forged.replace('v1,', 'v1a,') });
    expect(reason(delivery, [{ value: `whpk_${publicKeyOf(SEED)}` }])).toBe('bad_signature');
    expect(reason(withHeaders({ 'webhook-signature': forged }), [{ value: `whpk_${publicKeyOf(SEED)}` }])).toBe(
      'bad_signature',
    );
  });

  it('F169 SHA-1 is not taken where SHA-256 is asked for, nor the header that carries it', () => {
    const github = signatureSchema.parse('github');
    const old = signDelivery(signatureSchema.parse('github-sha1'), { value: 'secret' }, draft);
    const verify = createVerifier(github, [{ value: 'secret' }], null);
    expect(verify(old, NOW)).toEqual({ ok: false, reason: 'no_signature' });
    const moved = { ...old, headers: { 'x-hub-signature-256': old.headers['x-hub-signature'] } };
    expect(verify(moved, NOW)).toEqual({ ok: false, reason: 'bad_signature_header' });
  });
});

describe('the id of a delivery', () => {
  it.each(['a.b', 'a b', 'a,b', 'é', '', 'x'.repeat(201)])('F160 is refused where it is signed and reads %j', (id) => {
    expect(reason(signed({ id }))).toBe('no_id');
  });

  it('cannot take over what stands behind it', () => {
    // Signed as id "msg_1" and a body that begins with digits, sent as another id and the rest of the body.
    const delivery = signed({ body: Buffer.from('1760000000.{}') });
    const headers = { ...delivery.headers, 'webhook-id': 'msg_1.1760000000' };
    expect(reason({ ...delivery, headers, body: Buffer.from('{}') })).toBe('no_id');
  });

  it('is the digest of the body where the sender names none that can be used', () => {
    const timed = { type: 'hmac', value: { from: 'header:x-signature' }, timestamp: { from: 'header:x-time' } };
    const scheme = signatureSchema.parse({ ...timed, id: 'header:x-id', signed: '{ts}.{body}' });
    const verify = createVerifier(scheme, [{ value: 'secret' }], null);
    const delivery = signDelivery(scheme, { value: 'secret' }, draft);
    const without = { ...delivery, headers: { ...delivery.headers, 'x-id': undefined } };
    expect(verify(delivery, NOW)).toMatchObject({ deliveryId: 'msg_1', idFrom: 'sent' });
    expect(verify(without, NOW)).toMatchObject({
      deliveryId: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      idFrom: 'body',
    });
  });

  it.each([
    ['a time', { timestamp: { from: 'header:x-time' }, id: 'header:x-id', signed: '{ts}{body}' }, 'sent'],
    ['the header of the id', { id: 'header:x-id', signed: '{header:X-Id}{body}' }, 'sent'],
    ['the id itself', { id: 'header:x-id', signed: '{id}.{body}' }, 'sent'],
    ['the address with the id', { id: 'query:x-id', signed: '{path}{body}' }, 'sent'],
    ['the body with the id', { id: 'json:x-id', signed: '{body}' }, 'sent'],
    ['the body alone', { id: 'header:x-id', signed: '{body}' }, 'body'],
  ])('is only believed where nobody can change it for ever: %s is signed', (_, fields, idFrom) => {
    const scheme = signatureSchema.parse({ type: 'hmac', value: { from: 'header:x-signature' }, ...fields });
    const sent = { ...draft, body: Buffer.from('{"x-id":"msg_1"}'), path: '/webhooks/blog?x-id=msg_1' };
    const delivery = signDelivery(scheme, { value: 'secret' }, { ...sent, headers: { 'x-other': 'o' } });
    expect(createVerifier(scheme, [{ value: 'secret' }], null)(delivery, NOW)).toMatchObject({ idFrom });
  });
});
