import type { SignatureScheme } from '../../source/signature-scheme.ts';
import { hasToken } from '../../source/signature-template.ts';
import type { Delivery } from './delivery.ts';
import { textAt, type Parts } from './text-at.ts';

/** No blanks and no commas: that is how several headers of one name look once they were joined. */
const USABLE_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;
const NO_PARTS: Parts = new Map();

/**
 * Makes the function that reads the id that is part of what was signed; '' if the scheme signs none, null if the
 * delivery has none that can be used. The text that parts it from the rest of what is signed may not begin within it:
 * `a.1` and `2` would be signed like `a` and `1.2`.
 */
export function signedIdReader({ id, signed }: SignatureScheme): (delivery: Delivery, parts: Parts) => string | null {
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
export function deliveryIdReader(scheme: SignatureScheme) {
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
