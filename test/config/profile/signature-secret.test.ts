import { describe, expect, it } from 'vitest';
import { secretFault } from '../../../src/config/profile/signature-secret.ts';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';

const KEY = Buffer.alloc(24, 1).toString('base64');
const PUBLIC = Buffer.alloc(32, 2);

function fault(scheme: unknown, value: string, id?: string): string | null {
  return secretFault(signatureSchema.parse(scheme), { value, id });
}

describe('secrets that a scheme can use', () => {
  it.each([
    ['standard-webhooks', `whsec_${KEY}`],
    ['standard-webhooks', KEY],
    ['standard-webhooks', `whpk_${PUBLIC.toString('base64')}`],
    ['discord', PUBLIC.toString('hex')],
    ['stripe', `whsec_${KEY}`],
    ['github', "It's a Secret to Everybody"],
    ['basic', 'user:password'],
    [{ base: 'github', key_encoding: 'base64' }, 'YWJj'],
    [{ base: 'github', key_encoding: 'hex' }, '00ff'],
  ])('%j takes %s', (scheme, value) => {
    expect(fault(scheme, value)).toBeNull();
  });
});

describe('secrets that a scheme cannot use', () => {
  const whsec = 'expected whsec_ and base64 of at least 24 bytes, or whpk_ and base64 of a public key of 32 bytes';
  const line = 'expected a text on one line, without blanks around it';

  it.each([
    ['standard-webhooks', '', whsec],
    ['standard-webhooks', 'whsec_not base64', whsec],
    ['standard-webhooks', `whsec_${Buffer.alloc(23).toString('base64')}`, whsec],
    ['standard-webhooks', `whsec_${KEY}\n`, whsec],
    ['github', 'secret\n', line],
    ['github', 'sec\u0000ret', line],
    [
      'discord',
      PUBLIC.subarray(1).toString('hex'),
      'expected a public key of 32 bytes as hexadecimal digits, two for each byte',
    ],
    [{ base: 'github', key_encoding: 'hex' }, 'abz', 'expected hexadecimal digits, two for each byte'],
    [{ base: 'github', key_encoding: 'base64' }, 'a-b_', 'expected base64'],
    ['bearer', 'a\nb', 'expected printable ASCII on one line, without blanks around it'],
    ['basic', 'password', 'expected user:password, or a password with the user name as id'],
  ])('%j: %j', (scheme, value, message) => {
    expect(fault(scheme, value)).toBe(message);
  });
});
