import type { SignatureScheme } from '../../source/signature-scheme.ts';
import type { Delivery } from './delivery.ts';
import { textAt, type Parts } from './text-at.ts';

/** No blanks and no commas: that is how several headers of one name look once they were joined. */
const USABLE_ID = /^[\x21-\x2b\x2d-\x7e]{1,200}$/;
const NO_PARTS: Parts = new Map();

/**
 * Makes the function that reads the id that is part of what was signed; '' where the scheme signs none, null where the
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

/** Makes the function that says by what a delivery is known again when it is repeated. */
export function deliveryIdReader({ id }: SignatureScheme) {
  return (delivery: Delivery, parts: Parts): { deliveryId: string; idFrom: 'sent' | 'body' } => {
    const text = id.from === 'sha256' ? null : textAt(id, delivery, parts);
    if (text !== null && USABLE_ID.test(text)) return { deliveryId: text, idFrom: 'sent' };
    return { deliveryId: textAt({ from: 'sha256', name: 'body' }, delivery, NO_PARTS) ?? '', idFrom: 'body' };
  };
}
