import * as fc from 'fast-check';
import type { WebhookSecret } from '../../src/source/signature-secret.ts';
import { SIGNATURE_PRESET_NAMES } from '../../src/source/signature-presets.ts';
import { signatureSchema, type SignatureScheme } from '../../src/source/signature-scheme.ts';
import { answerChallenge } from '../../src/trigger/signature/challenges.ts';
import { signDelivery } from '../../src/trigger/signature/sign-delivery.ts';
import { createVerifier } from '../../src/trigger/signature/create-verifier.ts';
import type { Delivery } from '../../src/trigger/signature/delivery.ts';

export const RUNS = 2_000;

const NOW = 1_760_000_000_000;
const PUBLIC = 'https://hooks.example.com/w';
const SEED = '07'.repeat(32);

const NOTHING: Delivery = { method: 'POST', path: '/', headers: {}, body: Buffer.alloc(0) };

/** A scheme by name, with a secret that nobody can guess, and a delivery that is signed with it. */
const schemes = SIGNATURE_PRESET_NAMES.map((name) => {
  const scheme = signatureSchema.parse(name);
  const secret = secretFor(name);
  // What checks is the key that signs, but for Discord: there some public key checks, which nothing was signed for.
  const verify = createVerifier(scheme, [secret], PUBLIC);
  const signing = name === 'discord' ? { value: SEED } : secret;
  const delivery = signDelivery(scheme, signing, {
    body: Buffer.from('{"type":"x","id":"1"}'),
    id: 'msg_1',
    at: NOW,
    method: 'POST',
    path: '/w?a=1',
    publicUrl: PUBLIC,
    headers: { 'x-contentful-topic': 't' },
    parts: { env: 'master' },
  });
  return { name, scheme, secret, verify, delivery };
});

function secretFor(name: string): WebhookSecret {
  if (name === 'standard-webhooks' || name === 'svix')
    return { value: `whsec_${Buffer.alloc(32, 3).toString('base64')}` };
  if (name === 'discord') return { value: '5'.repeat(64) };
  if (name === 'basic') return { value: 'user:a long enough password' };
  return { value: 'not-to-be-guessed-0123456789', id: 'k1' };
}

/** Characters as Node hands over bytes of a header, and some that it never would. */
const headerText = fc.oneof(
  fc.string({ unit: 'binary-ascii', maxLength: 200 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.constantFrom(
    '',
    ',',
    '=',
    'v1,',
    't=1,v1=',
    'sha256=',
    'v0=',
    'Bearer ',
    'k1/SHA256/',
    '1760000000',
    '1760000000000',
  ),
);

const bodies = fc.oneof(
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  fc.json().map((text) => Buffer.from(text)),
  fc.constant(Buffer.from('['.repeat(50))),
);

/** Random from top to bottom, or a signed delivery in which some headers and the body are replaced. */
function strange(signed: Delivery): fc.Arbitrary<Delivery> {
  const names = Object.keys(signed.headers);
  const value = fc.oneof(headerText, fc.array(headerText, { maxLength: 3 }), fc.constant(undefined));
  const some = fc.dictionary(fc.oneof(fc.constantFrom(...names), headerText), value, { maxKeys: 6 });
  return fc.record({
    method: fc.constantFrom('POST', 'GET', 'PUT', '', 'post'),
    path: fc.oneof(
      headerText,
      headerText.map((text) => `/w?token=${text}`),
      fc.constant(signed.path),
    ),
    headers: fc.tuple(some, fc.boolean()).map(([given, keep]) => Object.assign({}, keep ? signed.headers : {}, given)),
    body: bodies,
  });
}

/** Whether the secret that is sent along was kept where it stands: then there is nothing to refuse. */
function keepsSecret({ methods, value }: SignatureScheme, given: Delivery, signed: Delivery): boolean {
  if (methods.some(({ type }) => type !== 'static' && type !== 'basic')) return false;
  const { from, name } = value.from;
  return from === 'query' ? given.path === signed.path : given.headers[name] === signed.headers[name];
}

/** That no random delivery is believed, and none throws; one that a secret was sent along with is left out. */
export function neverBelieved() {
  const cases = fc
    .constantFrom(...schemes.map((_, at) => at))
    .chain((at) => fc.record({ at: fc.constant(at), delivery: strange(schemes[at]?.delivery ?? NOTHING) }));
  return fc.property(cases, ({ at, delivery }) => {
    const one = schemes[at];
    if (one === undefined) throw new Error('no such scheme');
    const verdict = one.verify(delivery, NOW);
    answerChallenge(one.scheme, delivery, { verified: true, secrets: [one.secret], now: NOW });
    const isKept = one.scheme.value.from.from !== 'json' && keepsSecret(one.scheme, delivery, one.delivery);
    return isKept || !verdict.ok;
  });
}
