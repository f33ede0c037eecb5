import { type SignatureScheme, needsPublicUrl, hasToken } from '../../config/profile/signature-scheme.ts';
import {
  type Delivery,
  type SignatureRefusal,
  type SignatureVerdict,
  textAt,
  type Parts,
  schemeInFamily,
  checkTimestamp,
  timestampIn,
} from './delivery.ts';
import { ConfigError } from '../../model/errors.ts';
import type { WebhookSecret } from '../../config/profile/signature-secret.ts';
import { keysOf, signatureReader, type Key, type SentItem } from './prove.ts';
import { contentWriter, signedPath, urlForms } from './signed-content.ts';

/** Decides whether a delivery is authentic; `now` in epoch milliseconds. Never throws, whatever is sent. */
export type Verify = (delivery: Delivery, now: number) => SignatureVerdict;

/**
 * Prepares keys and places once, for thousands of deliveries per second. `publicUrl` is the whole address at which the
 * sender sees this source's receiver; only schemes that sign it look at it.
 *
 * Every refusal costs a digest over the body with every active key, also if the header alone is enough: the time of an
 * answer is to show as little as can be. Throws `ConfigError` for secrets that the scheme cannot use, or if the public
 * URL is missing.
 */
export function createVerifier(
  scheme: SignatureScheme,
  secrets: readonly WebhookSecret[],
  publicUrl: string | null,
): Verify {
  if (publicUrl === null && needsPublicUrl(scheme)) {
    throw new ConfigError('webhook_public_url', 'this signature scheme signs the address of the receiver', {
      hint: 'Set webhook.public_url to the address that the service sends its webhooks to.',
    });
  }
  const keys = keysOf(scheme, secrets);
  const plans = scheme.families.map((family) => planOf(schemeInFamily(scheme, family), publicUrl));
  return (delivery, now) => {
    const active = keys.filter((key) => key.isActive(now));
    const plan = plans.find((one) => one.isMeant(delivery)) ?? plans[0];
    if (plan === undefined || active.length === 0) return refused('no_secret');
    const verdict = plan.verify(active, delivery, now);
    // A refusal before the digest still takes as long as a digest.
    if (typeof verdict === 'string' && !AFTER_DIGEST.has(verdict))
      for (const key of active) key.prove([delivery.body], []);
    return typeof verdict === 'string' ? refused(verdict) : verdict;
  };
}

const AFTER_DIGEST: ReadonlySet<SignatureRefusal> = new Set(['bad_signature', 'bad_timestamp', 'too_old', 'too_new']);

/** One family's names of headers. */
interface Plan {
  isMeant(delivery: Delivery): boolean;
  verify(keys: readonly Key[], delivery: Delivery, now: number): SignatureVerdict | SignatureRefusal;
}

function planOf(scheme: SignatureScheme, publicUrl: string | null): Plan {
  const { value, timestamp } = scheme;
  const readSignature = signatureReader(scheme);
  const readSignedId = signedIdReader(scheme);
  const readDeliveryId = deliveryIdReader(scheme);
  const write = contentWriter(scheme);
  const urlsOf = urlForms(scheme.url_form, publicUrl);
  const pathOf = signedPath(publicUrl);
  const host = publicUrl === null ? '' : new URL(publicUrl).host;
  return {
    isMeant: ({ headers }) => value.from.from !== 'header' || headers[value.from.name] !== undefined,
    verify: (keys, delivery, now) => {
      const sent = readSignature(delivery);
      if (typeof sent === 'string') return sent;
      const ts = timestampIn(delivery, scheme, sent.parts);
      if (ts === null) return 'no_timestamp';
      const id = readSignedId(delivery, sent.parts);
      if (id === null) return 'no_id';
      const facts = { scheme, delivery, parts: sent.parts, id, ts, host, path: pathOf(delivery.path) };
      const proved = provedBy(keys, sent.items, urlsOf(delivery.path), (url, secret) =>
        write({ ...facts, url, secret }),
      );
      if (proved !== true) return proved;
      const sentAt = timestamp === null ? null : checkTimestamp(ts, timestamp, now);
      if (typeof sentAt === 'string') return sentAt;
      return { ok: true, ...readDeliveryId(delivery, sent.parts), sentAt };
    },
  };
}

function provedBy(
  keys: readonly Key[],
  items: readonly SentItem[],
  urls: readonly string[],
  contentOf: (url: string, secret: Buffer) => Buffer[] | null,
): SignatureRefusal | true {
  let proofs = 0;
  for (const key of keys) {
    const texts = items.filter((item) => key.isMeant(item)).map(({ text }) => text);
    for (const url of urls) {
      const content = contentOf(url, key.bytes);
      if (content === null) return 'bad_content';
      proofs += Number(key.prove(content, texts));
    }
  }
  return proofs > 0 ? true : 'bad_signature';
}

function refused(reason: SignatureRefusal): SignatureVerdict {
  return { ok: false, reason };
}

/**
 * A verifier for sources that do not exist: it takes as long as the one it is given (of a source that does) and believes
 * nothing.
 */
export function verifierForNobody(like: Verify): Verify {
  return (delivery, now) => {
    like(delivery, now);
    return refused('no_secret');
  };
}

/** No blanks and no commas: that is how several headers of one name look once they were joined. */
const USABLE_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;
const NO_PARTS: Parts = new Map();

/**
 * Makes the function that reads the id that is part of what was signed; '' if the scheme signs none, null if the
 * delivery has none that can be used. The text that parts it from the rest of what is signed may not begin within it:
 * `a.1` and `2` would be signed like `a` and `1.2`.
 */
function signedIdReader({ id, signed }: SignatureScheme): (delivery: Delivery, parts: Parts) => string | null {
  const at = signed.findIndex((segment) => typeof segment !== 'string' && segment.token === 'id');
  if (at === -1) return () => '';
  const next = signed[at + 1] ?? signed[at - 1];
  const border = typeof next === 'string' ? next.slice(0, 1) : '';
  return (delivery, parts) => {
    const text = textAt(id, delivery, parts);
    return text !== null && USABLE_ID.test(text) && !text.includes(border) ? text : null;
  };
}

/**
 * Makes the function that says by what a delivery is known again when it is repeated. If neither the id nor a time is
 * signed, a delivery that somebody has captured is as good under any other id, for ever: then it is known by its body.
 */
function deliveryIdReader(scheme: SignatureScheme) {
  const { id, timestamp } = scheme;
  const isTrusted = timestamp !== null || isIdSigned(scheme);
  return (delivery: Delivery, parts: Parts): { deliveryId: string; idFrom: 'sent' | 'body' } => {
    const text = isTrusted ? textAt(id, delivery, parts) : null;
    if (text !== null && USABLE_ID.test(text)) return { deliveryId: text, idFrom: 'sent' };
    return { deliveryId: textAt({ from: 'sha256', name: 'body' }, delivery, NO_PARTS) ?? '', idFrom: 'body' };
  };
}

/** By the place of the id: whether the signed content holds it. */
const SIGNED_WITH: Readonly<Record<SignatureScheme['id']['from'], (scheme: SignatureScheme, name: string) => boolean>> =
  {
    header: ({ signed, signed_headers }, name) =>
      signed.some((one) => typeof one !== 'string' && one.token === 'header' && one.name === name) ||
      (hasToken(signed, 'signed_headers') && signed_headers?.required.includes(name) === true),
    part: ({ signed }, name) =>
      signed.some((one) => typeof one !== 'string' && one.token.startsWith('part') && one.name === name),
    query: ({ signed }) => hasToken(signed, 'url', 'path'),
    json: ({ signed }) => hasToken(signed, 'body', 'body_json', 'body_sha256'),
    // The digest of the body itself.
    sha256: () => false,
  };

function isIdSigned(scheme: SignatureScheme): boolean {
  const { id, signed } = scheme;
  return hasToken(signed, 'id') || SIGNED_WITH[id.from](scheme, id.name);
}
