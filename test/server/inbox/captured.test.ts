import { describe, expect, it } from 'vitest';
import { signatureSchema, type SignatureScheme } from '../../../src/config/profile/signature-scheme.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';
import { capturedWebhooks, type CapturedWebhook } from '../../support/corpora.ts';

type Service = Parameters<typeof capturedWebhooks>[0];

const inHeader = (name: string): object => ({ base: 'static-header', value: { from: `header:${name}` } });

describe('what proves real deliveries', () => {
  const PROOFS: readonly [Service, unknown, string][] = [
    ['ghost', 'ghost', 'ghost-hook-secret-1'],
    ['strapi', inHeader('x-hook-token'), 'strapi-hook-token-1'],
    ['directus', inHeader('x-webhook-token'), 'directus-hook-token-1'],
  ];

  it.each(PROOFS)('%s by %j', (service, given, secret) => {
    const scheme = signatureSchema.parse(given);
    for (const sent of capturedWebhooks(service)) {
      expect(Buffer.byteLength(sent.body)).toBe(sent.bytes);
      expect(verdictOf(scheme, secret, sent)).toBe('ok');
      expect(verdictOf(scheme, `${secret}x`, sent)).toBe('bad_signature');
    }
  });
});

function verdictOf(scheme: SignatureScheme, secret: string, sent: CapturedWebhook): string {
  const verify = createVerifier(scheme, [{ value: secret }], null);
  const delivery = { method: sent.method, path: sent.url, headers: sent.headers, body: Buffer.from(sent.body) };
  const verdict = verify(delivery, Date.parse(sent.at));
  return verdict.ok ? 'ok' : verdict.reason;
}
