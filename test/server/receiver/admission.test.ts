import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { admissionOf, refusalBeforeBody } from '../../../src/server/receiver/body.ts';

function refusal(scheme: string, method: string, headers: Record<string, string>): string | null {
  return refusalBeforeBody(admissionOf(signatureSchema.parse(scheme), 100), method, headers);
}

describe('a request whose body was not read yet', () => {
  it('may be a form only if the scheme signs it, and a question if its sender asks one', () => {
    expect(refusal('twilio', 'POST', { 'content-type': 'application/x-www-form-urlencoded' })).toBeNull();
    expect(refusal('bearer', 'POST', { 'content-type': 'application/x-www-form-urlencoded' })).toBe('content_type');
    const question = signatureSchema.parse({ base: 'standard-webhooks', challenge: 'msgraph' });
    const admission = admissionOf(question, 100);
    expect(refusalBeforeBody(admission, 'POST', { 'content-type': 'text/plain' })).toBeNull();
    expect(refusalBeforeBody(admission, 'GET', {})).toBeNull();
  });
});
