/**
 * What showed that a listing has ended: the answer said so, told a total or a number of pages that is reached, was
 * shorter than the pages that the service gives, or was empty.
 */
export type EndProof = 'signal' | 'total' | 'pages' | 'short' | 'empty';

/** Why a walk that came to its end may not have met every record. */
export interface Doubt {
  /**
   * `unproved`: nothing shows that the listing ended. `fewer`: it told a total that was not reached. `slipped`: a record
   * moved over a boundary of pages, and another one may have moved the other way unseen. `entered`: records moved from
   * pages still to come to pages that were read, which a filter by time lists. `unwatched`: pages by number that tell
   * no total show no movement; a second walk that meets the same shows that there was none.
   */
  code: 'unproved' | 'fewer' | 'slipped' | 'entered' | 'unwatched';
  /** What was seen, as a sentence without its final period. */
  message: string;
  /** What to set, or to do. */
  hint: string;
}

/** A record up to which a listing was read without any movement. */
export interface SureRecord {
  /** Fingerprint of its key. */
  key: Uint8Array;
  /** When it last changed, as the service wrote it. */
  updated: string;
}

/** The end of a walk. It is proved where there is no doubt. */
export interface WalkEnd {
  proof: EndProof | null;
  /** Records that it met; null if nobody counted. */
  records: number | null;
  doubts: readonly Doubt[];
  /** For a walk that is made again: what this one met, page by page. */
  prints: string;
  /** The last record that was read before anything moved, if the listing ascends by time; else null. */
  sure: SureRecord | null;
  /** True if the walk met the record with this key's fingerprint. */
  met: (key: Uint8Array) => boolean;
  /** Where no page but the last held as many records as were asked for: how many were, and what came nearest; else null. */
  pageSize: { asked: number; came: number } | null;
}
