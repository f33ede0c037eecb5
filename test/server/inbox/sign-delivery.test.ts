import { createPrivateKey, createPublicKey } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { SIGNATURE_PRESET_NAMES } from '../../../src/config/profile/signature-presets.ts';
import type { WebhookSecret } from '../../../src/config/profile/signature-secret.ts';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { signDelivery, type DeliveryDraft } from '../../../src/server/signature/sign-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';

const NOW = 1_760_000_000_123;
const SEED = Buffer.alloc(32, 7);
const DER = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), SEED]);
const PRIVATE = createPrivateKey({ key: DER, format: 'der', type: 'pkcs8' });
const PUBLIC = createPublicKey(PRIVATE).export({ format: 'der', type: 'spki' }).subarray(-32);
const PEM = PRIVATE.export({ format: 'pem', type: 'pkcs8' }).toString();

const draft: DeliveryDraft = {
  body: Buffer.from('{"type":"content.updated","data":{"id":"1"}}'),
  id: 'msg_1',
  at: NOW,
  method: 'POST',
  path: '/webhooks/blog?x=1',
  publicUrl: 'https://hooks.example.com/webhooks/blog',
  headers: { 'x-contentful-topic': 'ContentManagement.Entry.publish' },
  parts: { env: 'master' },
};

/** The secrets of the two sides, which are one and the same but for key pairs. */
function secretsFor(preset: string): { signs: WebhookSecret; verifies: WebhookSecret } {
  if (preset === 'discord')
    return { signs: { value: SEED.toString('hex') }, verifies: { value: PUBLIC.toString('hex') } };
  const shared = /^(standard-webhooks|svix)$/.test(preset)
    ? { value: `whsec_${SEED.toString('base64')}` }
    : { value: 'correct horse battery', id: 'k1' };
  return { signs: shared, verifies: shared };
}

/** The time as it is sent, where the receiver believes it. */
function written(unit: string): string | undefined {
  const scheme = signatureSchema.parse({ base: 'slack', timestamp: { unit } });
  const delivery = signDelivery(scheme, { value: 'secret' }, draft);
  const { ok } = createVerifier(scheme, [{ value: 'secret' }], null)(delivery, NOW);
  return ok ? delivery.headers['x-slack-request-timestamp'] : undefined;
}

describe('a delivery signed as by its sender', () => {
  it.for(SIGNATURE_PRESET_NAMES)('is believed by the receiver: %s', (preset) => {
    const scheme = signatureSchema.parse(preset);
    const { signs, verifies } = secretsFor(preset);
    const delivery = signDelivery(scheme, signs, draft);
    const verdict = createVerifier(scheme, [verifies], draft.publicUrl)(delivery, NOW);
    expect(verdict).toMatchObject({ ok: true });
    const other = createVerifier(
      scheme,
      [{ ...verifies, value: verifies.value.replace(/[ao0]|c(?!_)/, 'e') }],
      draft.publicUrl,
    );
    expect(other(delivery, NOW)).toEqual({ ok: false, reason: 'bad_signature' });
  });

  it.each([
    ['PEM', PEM],
    ['hex', SEED.toString('hex')],
    ['base64', SEED.toString('base64')],
    ['whsk_ and base64', `whsk_${SEED.toString('base64')}`],
  ])('takes a private key as %s', (_, value) => {
    const scheme = signatureSchema.parse('discord');
    const verify = createVerifier(scheme, [{ value: PUBLIC.toString('hex') }], null);
    expect(verify(signDelivery(scheme, { value }, draft), NOW)).toMatchObject({ ok: true });
  });

  it.each(['-----BEGIN nonsense', 'short', ''])('says what key it needs instead of %j, not what it got', (value) => {
    const sign = () => signDelivery(signatureSchema.parse('discord'), { value }, draft);
    expect(sign).toThrow('cannot sign with this secret');
    expect(sign).toThrow('private key: PEM, or 32 bytes as hex or base64');
  });

  it('keeps its own time: in seconds, milliseconds or as ISO 8601', () => {
    expect(['s', 'ms', 'iso'].map(written)).toEqual(['1760000000', '1760000000123', '2025-10-09T08:53:20.123Z']);
  });

  it.each([
    ['contentful', { headers: {} }, 'a header or a part'],
    ['hygraph', { parts: {} }, 'a header or a part'],
    ['hubspot', { publicUrl: null }, 'the public URL'],
    ['prismic', { body: Buffer.from('[]') }, 'a JSON object as body'],
  ])('cannot be signed where something is missing: %s', (preset, change, message) => {
    expect(() => signDelivery(signatureSchema.parse(preset), { value: 'secret' }, { ...draft, ...change })).toThrow(
      message,
    );
  });
});
