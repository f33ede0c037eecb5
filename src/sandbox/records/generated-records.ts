import type { BaseRecords, Sort } from './base-records.ts';
import { spread } from './record-facts.ts';
import { templateFor, updatedAt } from './record-template.ts';

/** Steps of the unsorted order: primes, so that one visits every index unless the count is a multiple of it. */
const STRIDE = 7_368_787;
const OTHER_STRIDE = 2_750_159;
const DIGITS = 9;

/**
 * `count` records of a resource, each computed from its index and kept nowhere. `flat` leaves arrays out.
 * The same count gives the same records on every machine.
 */
export function generatedRecords(resource: string, count: number, sort: Sort, flat: boolean): BaseRecords {
  const template = templateFor(resource);
  const order = sort === 'updated' ? identity : shuffle(count);
  const idOf = (index: number) => template.prefix + String(index).padStart(DIGITS, '0');
  const indexOf = (key: string) => indexIn(key, template.prefix, count);
  const positionOf = (key: string) => {
    const index = indexOf(key);
    return index === -1 ? -1 : order.positionOf(index);
  };
  return {
    size: count,
    rankAt: (position) => (sort === 'updated' ? updatedAt(position) : position),
    keyAt: (position) => idOf(order.indexAt(position)),
    timeAt: (position) => updatedAt(order.indexAt(position)),
    textAt: (position) => {
      const index = order.indexAt(position);
      return Buffer.from(template.text(idOf(index), index, flat));
    },
    positionOf,
    rankOf: (key, time) => {
      if (sort === 'updated') return time;
      const position = positionOf(key);
      return position === -1 ? spread(key) % Math.max(count, 1) : position;
    },
    stamped: true,
  };
}

interface Order {
  indexAt(position: number): number;
  positionOf(index: number): number;
}

const identity: Order = { indexAt: (position) => position, positionOf: (index) => index };

/** A fixed permutation: position p shows index p * stride mod count; the way back by the modular inverse. */
function shuffle(count: number): Order {
  if (count < 3) return identity;
  const stride = (count % STRIDE === 0 ? OTHER_STRIDE : STRIDE) % count;
  const inverse = modularInverse(stride, count);
  return {
    indexAt: (position) => (position * stride) % count,
    positionOf: (index) => (index * inverse) % count,
  };
}

function modularInverse(value: number, modulus: number): number {
  let [previous, current] = [modulus, value];
  let [before, now] = [0, 1];
  while (current !== 0) {
    const quotient = Math.floor(previous / current);
    [previous, current] = [current, previous - quotient * current];
    [before, now] = [now, before - quotient * now];
  }
  return before < 0 ? before + modulus : before;
}

function indexIn(key: string, prefix: string, count: number): number {
  if (key.length !== prefix.length + DIGITS || !key.startsWith(prefix)) return -1;
  const digits = key.slice(prefix.length);
  const index = /^\d+$/.test(digits) ? Number(digits) : -1;
  return index < count ? index : -1;
}
