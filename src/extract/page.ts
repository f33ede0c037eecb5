import type { SourceRecord } from '../model/json.ts';
import type { ApiAnswer } from '../http/client.ts';
import type { WalkEnd } from './guards/walk-end.ts';

/** The place of a walk: the next request as path and query, relative to the source's base URL. Serialisable. */
export type PagePosition = string;

/** One page of a walk, checked by the guards, in the order of the listing. */
export interface Page {
  /** 1 for the first page of the whole walk, counted on over a resume. */
  number: number;
  position: PagePosition;
  /** The position after this page; null at the end of the listing. */
  next: PagePosition | null;
  records: SourceRecord[];
  /** How many of them this walk has handed out before, because the page was read again; 0 for any other page. */
  again: number;
  /** Local epoch milliseconds just before the page was asked for. */
  requestedAt: number;
  /** The service's clock by the answer's `Date`; null if it has none. */
  serverDate: number | null;
  /** How many records the service says there are in all. */
  total: number | null;
  /** True if pages are cut by number, so that what moves in the listing shifts them. */
  isNumbered: boolean;
  /** Fingerprints of the records' keys (`shape/records/key-fingerprint.ts`), also of one that the page before had as its last. */
  keys: Uint8Array;
  /** The most records that a page held so far which named a next one; 0 if none did. */
  kept: number;
  /** Gives back the memory that the page takes; nothing of it is read afterwards. May be called again. */
  release: () => void;
  /**
   * The same for whoever has written the page and is the only one who had its records: their bytes are gone at once, and
   * views of them are empty.
   */
  discard: () => void;
  /** How the walk ended with this page; null if it goes on. */
  end: WalkEnd | null;
  /** The answer of the last page, in which a service may say where its changes are to be asked for from now on. */
  answer?: ApiAnswer;
}
