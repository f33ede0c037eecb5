import { describe, expect, it } from 'vitest';
import { SIGNATURE_PRESET_NAMES } from '../../../src/config/profile/signature-presets.ts';
import type { WebhookSecret } from '../../../src/config/profile/signature-secret.ts';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { signDelivery, type DeliveryDraft } from '../../../src/server/signature/sign-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';

const NOW = 1_760_000_000_123;
const SEED = Buffer.alloc(32, 7);

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

function secretFor(preset: string): WebhookSecret {
  if (/^(standard-webhooks|svix)$/.test(preset)) return { value: `whsec_${SEED.toString('base64')}` };
  return { value: 'correct horse battery', id: 'k1' };
}

/** The time as it is sent, where the receiver believes it. */
function written(unit: string): string | undefined {
  const scheme = signatureSchema.parse({ base: 'slack', timestamp: { unit } });
  const delivery = signDelivery(scheme, { value: 'secret' }, draft);
  const { ok } = createVerifier(scheme, [{ value: 'secret' }], null)(delivery, NOW);
  return ok ? delivery.headers['x-slack-request-timestamp'] : undefined;
}

describe('a delivery signed as by its sender', () => {
  it.for(SIGNATURE_PRESET_NAMES.filter((preset) => preset !== 'discord'))(
    'is believed by the receiver: %s',
    (preset) => {
      const scheme = signatureSchema.parse(preset);
      const secret = secretFor(preset);
      const delivery = signDelivery(scheme, secret, draft);
      const verdict = createVerifier(scheme, [secret], draft.publicUrl)(delivery, NOW);
      expect(verdict).toMatchObject({ ok: true });
      const wrong = { ...secret, value: secret.value.replace(/[ao0]|c(?!_)/, 'e') };
      const other = createVerifier(scheme, [wrong], draft.publicUrl);
      expect(other(delivery, NOW)).toEqual({ ok: false, reason: 'bad_signature' });
    },
  );

  it('cannot be signed with a key pair', () => {
    const scheme = signatureSchema.parse('discord');
    const secret = { value: 'ab'.repeat(32) };
    expect(() => signDelivery(scheme, secret, draft)).toThrow('only the service has the private key');
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
