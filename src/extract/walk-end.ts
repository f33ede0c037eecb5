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

/** The end of a walk. It is proved where there is no doubt. */
export interface WalkEnd {
  proof: EndProof | null;
  doubts: readonly Doubt[];
  /** For a walk that is made again: what this one met, page by page. */
  prints: string;
  /** A time up to which the listing was read without any movement, if it ascends by time; as the service wrote it. */
  sureUntil: string | null;
  /** Records on the largest page that named a next one, and how many were asked for; null where no page did. */
  pageSize: { asked: number; came: number } | null;
}
