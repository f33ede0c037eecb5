// Decides whether a webhook request is authentic, by the signature scheme of its source.
//
// Example: the scheme of Stripe signs `{ts}.{body}`, and the header `Stripe-Signature: t=1732090000,v1=6f2a…` has the time
// as the part `t` and the signature under the label `v1`. The same bytes are signed here with the secret and compared.
import { createHash } from 'node:crypto';
import {
  hasToken,
  needsPublicUrl,
  type SignatureScheme,
  type TokenName,
} from '../../config/profile/signature-scheme.ts';
import type { WebhookSecret } from '../../config/profile/signature-secret.ts';
import { ConfigError } from '../../model/errors.ts';
import {
  checkTimestamp,
  type Delivery,
  NO_PARTS,
  onlyHeader,
  queryOf,
  schemeInFamily,
  type SignatureParts,
  type SignatureRefusal,
  type SignatureVerdict,
  textAt,
  timestampIn,
} from './delivery.ts';
import { type Key, keysOf, readSignature } from './signature-methods.ts';

/** Decides whether a delivery is authentic; `now` in epoch milliseconds. Never throws. */
export type Verify = (delivery: Delivery, now: number) => SignatureVerdict;

/**
 * Prepares keys and fields once, for thousands of deliveries per second. `publicUrl` is the whole address to which the
 * sender posts; only schemes that sign it need it. Throws `ConfigError` for secrets that the scheme cannot use, or if the
 * public URL is missing.
 */
export function createVerifier(
  scheme: SignatureScheme,
  secrets: readonly WebhookSecret[],
  publicUrl: string | null,
): Verify {
  if (publicUrl === null && needsPublicUrl(scheme)) {
    throw new ConfigError('settings_invalid', 'this signature scheme signs the address of the receiver', {
      hint: 'Set webhook.public_url to the address that the service sends its webhooks to.',
    });
  }
  const keys = keysOf(scheme, secrets);
  // Senders of one scheme use different prefixes of header names (families), such as `webhook-id` or `svix-id`.
  const families = scheme.families.map((family) => schemeInFamily(scheme, family));
  return (delivery, now) => {
    const active = keys.filter(({ until }) => now <= until);
    const family = families.find((one) => isInFamily(one, delivery)) ?? families[0];
    if (family === undefined || active.length === 0) return { ok: false, reason: 'no_secret' };
    const verdict = verifyDelivery(family, publicUrl, active, delivery, now);
    return typeof verdict === 'string' ? { ok: false, reason: verdict } : verdict;
  };
}

function isInFamily({ value }: SignatureScheme, { headers }: Delivery): boolean {
  return value.from.from !== 'header' || headers[value.from.name] !== undefined;
}

function verifyDelivery(
  scheme: SignatureScheme,
  publicUrl: string | null,
  keys: readonly Key[],
  delivery: Delivery,
  now: number,
): SignatureVerdict | SignatureRefusal {
  const sent = readSignature(scheme, delivery);
  if (typeof sent === 'string') return sent;
  const { parts, items: signatures } = sent;
  const ts = timestampIn(delivery, scheme, parts);
  if (ts === null) return 'no_timestamp';
  const id = signedId(scheme, delivery, parts);
  if (id === null) return 'no_id';
  const content = signedContent({ scheme, delivery, parts, id, ts, publicUrl });
  if (content === null) return 'bad_content';
  // All keys are tried, even after a match, so that the time of a response does not show which one is right.
  const matching = keys.filter((key) => {
    const texts = signatures.filter(({ label }) => label === key.item).map(({ text }) => text);
    return key.matches(content, texts);
  });
  if (matching.length === 0) return 'bad_signature';
  const { timestamp } = scheme;
  const sentAt = timestamp === null ? null : checkTimestamp(ts, timestamp, now);
  return typeof sentAt === 'string' ? sentAt : { ok: true, ...deliveryId(scheme, delivery, parts), sentAt };
}

/** An id without blanks and commas: those may come from several headers of one name that were joined. */
const USABLE_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;

/**
 * Returns the signed id; '' if the scheme signs none, null if the delivery has no usable one. The id must not contain the
 * character that separates it in the signed content: id `a.1` with time `2` would have the signature of `a` with `1.2`.
 */
function signedId({ id, signed }: SignatureScheme, delivery: Delivery, parts: SignatureParts): string | null {
  const at = signed.findIndex((segment) => typeof segment !== 'string' && segment.token === 'id');
  if (at === -1) return '';
  const next = signed[at + 1] ?? signed[at - 1];
  const border = typeof next === 'string' ? next.slice(0, 1) : '';
  const text = textAt(id, delivery, parts);
  return text !== null && USABLE_ID.test(text) && !text.includes(border) ? text : null;
}

/**
 * Returns the id by which repeats are recognised. If neither the id nor a time is signed, an attacker who has captured a
 * delivery could repeat it with other ids for ever, so the hash of the body is the id.
 */
function deliveryId(
  scheme: SignatureScheme,
  delivery: Delivery,
  parts: SignatureParts,
): { deliveryId: string; idFrom: 'sent' | 'body' } {
  const isTrusted = scheme.timestamp !== null || isIdSigned(scheme);
  const text = isTrusted ? textAt(scheme.id, delivery, parts) : null;
  if (text !== null && USABLE_ID.test(text)) return { deliveryId: text, idFrom: 'sent' };
  return { deliveryId: textAt({ from: 'sha256', name: 'body' }, delivery, NO_PARTS) ?? '', idFrom: 'body' };
}

function isIdSigned({ id, signed, signed_headers }: SignatureScheme): boolean {
  const { from, name } = id;
  const isNamed = (prefix: 'header' | 'part'): boolean =>
    signed.some((one) => typeof one !== 'string' && one.token.startsWith(prefix) && one.name === name);
  if (hasToken(signed, 'id')) return true;
  if (from === 'query') return hasToken(signed, 'url', 'path');
  if (from === 'json') return hasToken(signed, 'body', 'body_sha256');
  if (from === 'part') return isNamed('part');
  const isListed = hasToken(signed, 'signed_headers') && signed_headers?.required.includes(name) === true;
  return from === 'header' && (isNamed('header') || isListed);
}

interface SignedFacts {
  scheme: SignatureScheme;
  delivery: Delivery;
  parts: SignatureParts;
  id: string;
  ts: string;
  publicUrl: string | null;
}

/** The bytes of each token in the template of a scheme; null if the delivery lacks them, or they cannot have been signed. */
const TOKEN_BYTES: Readonly<Record<TokenName, (facts: SignedFacts, name: string) => Buffer | null>> = {
  id: ({ id }) => wireBytes(id),
  ts: ({ ts }) => wireBytes(ts),
  body: ({ delivery }) => delivery.body,
  body_sha256: ({ delivery }) => Buffer.from(createHash('sha256').update(delivery.body).digest('hex')),
  method: ({ delivery }) => wireBytes(delivery.method),
  url: ({ publicUrl, delivery }) => Buffer.from(withoutQuery(publicUrl ?? '') + queryOf(delivery.path)),
  path: ({ publicUrl, delivery }) => wireBytes(signedPath(publicUrl, delivery)),
  host: ({ publicUrl }) => Buffer.from(publicUrl === null ? '' : new URL(publicUrl).host),
  signed_headers: listedHeaders,
  header: ({ delivery }, name) => wireBytes(onlyHeader(delivery, name)),
  part: ({ parts }, name) => wireBytes(parts.get(name) ?? null),
};

/**
 * Assembles the signed bytes; null if the delivery lacks any. The address is that of the settings with the query of the
 * delivery: Host and X-Forwarded-* are ignored, because anyone can send them.
 */
export function signedContent(facts: SignedFacts): Buffer[] | null {
  const bytes = facts.scheme.signed.map((segment) =>
    typeof segment === 'string' ? Buffer.from(segment) : TOKEN_BYTES[segment.token](facts, segment.name),
  );
  return bytes.every((piece) => piece !== null) ? bytes : null;
}

/** The bytes of a text as it was sent: Node decodes each byte as one character. */
function wireBytes(text: string | null): Buffer | null {
  if (text === null) return null;
  const bytes = Buffer.from(text, 'latin1');
  // A character of more than one byte was not sent: `latin1` would change it to another one.
  return bytes.toString('latin1') === text ? bytes : null;
}

/**
 * Returns `name:value;name:value`, sorted, for the headers that the delivery lists as signed. An attacker could leave
 * headers out of the list, so it must contain those that the scheme requires, and itself.
 */
function listedHeaders({ scheme, delivery }: SignedFacts): Buffer | null {
  const list = scheme.signed_headers && onlyHeader(delivery, scheme.signed_headers.from.name);
  if (!list) return null;
  const names = list.split(',').map((name) => name.trim().toLowerCase());
  const missing = scheme.signed_headers?.required.some((name) => !names.includes(name));
  if (missing || new Set(names).size < names.length) return null;
  const lines = names.toSorted().map((name) => {
    const value = onlyHeader(delivery, name);
    return value === null ? null : `${name}:${value.trim()}`;
  });
  return lines.includes(null) ? null : wireBytes(lines.join(';'));
}

/** Returns path and query as the sender knows them: a proxy may have changed the path of the public URL. */
function signedPath(publicUrl: string | null, { path }: Delivery): string {
  if (publicUrl === null) return path;
  return (withoutQuery(publicUrl).replace(/^[a-z]+:\/\/[^/]*/i, '') || '/') + queryOf(path);
}

function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '');
}
