import { createHash } from 'node:crypto';
import type { DeliveryState, NewDelivery } from './inbox.ts';

/** Decides what a request means if its delivery is stored already. */
export type Repetition = 'count' | 'countEvent' | 'waitAgain';

/**
 * A repeat of the sender's own id is no news, unless nobody could work on the first one. If the id is only the hash
 * of the body, the same body may be a new event: a finished one is worked on again, a waiting one not settled unread.
 */
export function repetition(state: DeliveryState, isIdSent: boolean): Repetition {
  if (isIdSent) return state === 'dead' ? 'waitAgain' : 'count';
  return state === 'waiting' ? 'countEvent' : 'waitAgain';
}

/** Of the SHA-256 of a body; enough that no two bodies under one id meet by chance. */
const APART_DIGITS = 16;

/** SHA-256 in hexadecimal, as Postgres writes it too. */
export function bodyDigest(body: Uint8Array): string {
  return createHash('sha256').update(body).digest('hex');
}

/**
 * A delivery under an id of its own, because another body stands under the one that it was sent with: the first one
 * stays as it is, and this one is worked on beside it. The headers do not count: they are not signed as a rule, and
 * a person who has captured one delivery could make as many of it as there are headers to think of.
 */
export function setApart(delivery: NewDelivery): NewDelivery {
  const { delivery_id, body, differs_from = delivery_id } = delivery;
  return { ...delivery, delivery_id: `${delivery_id}#${bodyDigest(body).slice(0, APART_DIGITS)}`, differs_from };
}

/** The size of a waiting delivery: bytes of its body plus characters of its headers, which are mostly as many bytes. */
export function sizeOf({ body, headers }: Pick<NewDelivery, 'body' | 'headers'>): number {
  return body.byteLength + headers.length;
}
