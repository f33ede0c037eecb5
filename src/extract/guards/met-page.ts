import type { PagePosition } from '../page.ts';
import type { UndeclaredSignals } from '../requests/undeclared-signals.ts';
import { eachKey } from './page-keys.ts';
import { KEY_FINGERPRINT_BYTES } from '../../shape/records/key-fingerprint.ts';

/** A page as a walk remembers it. */
export interface MetPage {
  position: PagePosition;
  /** Fingerprints of its keys. */
  keys: Uint8Array;
  /** Records without a usable key. */
  unkeyed: number;
}

/** One page's entry in the ledger. */
export interface LedgerEntry extends MetPage {
  total: number | null;
  /** How many records it shares with the page before it, because it was asked for so; Infinity if any number is fine. */
  overlap: number;
  /** True if a record may have slipped between the page before and this one with nothing to show for it. */
  isBoundary: boolean;
  /** What its response says of the whole listing at places that the profile does not name. */
  signals: UndeclaredSignals;
}

/** The part of a walk that was stored before it was taken up again; nothing for a new one. */
export interface WalkBefore {
  pages: readonly MetPage[];
  /** True if these are all pages that it has read. */
  isWhole: boolean;
  leastTotal: number | null;
}

/** Records on a page, with and without a key. */
export function sizeOf({ keys, unkeyed }: MetPage): number {
  return keys.length / KEY_FINGERPRINT_BYTES + unkeyed;
}

/** True if a fingerprint is among the keys. */
export function holds(keys: Uint8Array, high: number, low: number): boolean {
  let found = false;
  eachKey(keys, (otherHigh, otherLow) => {
    if (otherHigh === high && otherLow === low) found = true;
  });
  return found;
}
