/**
 * The sign that a listing has ended: the answer said so, told a total or a number of pages that is reached, was
 * shorter than the pages that the service gives, or was empty. As the profile declares it: the page after it was refused
 * by a `status` and in words that say so, it named itself as the next one (`unchanged`), or it is the `whole` list.
 */
export type EndProof = 'signal' | 'total' | 'pages' | 'short' | 'empty' | 'status' | 'unchanged' | 'whole';

/** Why a walk that came to its end may not have met every record. */
export interface Doubt {
  /**
   * `unproved`: nothing shows that the listing ended. `fewer`: it told a total that was not reached. `slipped`: a record
   * moved over a boundary of pages, and another one may have moved the other way unseen. `entered`: records moved from
   * pages still to come to pages that were read, which a filter by time lists. `unwatched`: pages by number that tell
   * no total show no movement; a second walk that meets the same shows that there was none. `cached`: pages are from
   * other moments than the walk. `unread`: the service refused one of several listings.
   */
  code: 'unproved' | 'fewer' | 'slipped' | 'entered' | 'unwatched' | 'cached' | 'unread';
  /** The observation, as a sentence without its final period. */
  message: string;
  /** The setting to change, or the thing to do. */
  hint: string;
}

/** A record up to which a listing was read without any movement. */
export interface SureRecord {
  /** Fingerprint of its key. */
  key: Uint8Array;
  /** When it last changed, as the service wrote it. */
  updated: string;
}

/** The end of a walk. It is proved if there is no doubt. */
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
  /** If no page but the last held as many records as were asked for: how many were, and what came nearest; else null. */
  pageSize: { asked: number; came: number } | null;
  /**
   * Milliseconds after which a cache in front gives none of these pages again, or tells which; 0 if no cache shows, null
   * if it keeps them for nobody knows how long.
   */
  settleMs: number | null;
}

/** A walk's ledger at its end. */
interface LedgerFacts {
  /** A record came again far behind its first page, or nothing of a page was found again. */
  hasSlipped: boolean;
  /** Records were on two neighbouring pages. */
  hasEntered: boolean;
  /** Pages by number told no total and shared no record. */
  isUnwatched: boolean;
  /** Records; null if nobody counted. */
  met: number | null;
  /** The smallest total that was told; null if none was. */
  leastTotal: number | null;
}

const AGAIN =
  'usually the sort of the listing is not unique: add the id to it in query, such as sort=updated_at,id; else run it again when less is changed; accept: [end] accepts it, but no row is marked deleted after such a scan';

/** The doubts against a walk, the gravest first. Pure. */
export function doubtsOf({ hasSlipped, hasEntered, isUnwatched, met, leastTotal }: LedgerFacts): Doubt[] {
  const doubts: Doubt[] = [];
  if (hasSlipped) doubts.push(slipped);
  else if (hasEntered) doubts.push(entered);
  if (leastTotal !== null && met !== null && met < leastTotal) doubts.push(fewer(met, leastTotal));
  return isUnwatched ? [...doubts, unwatched] : doubts;
}

const slipped: Doubt = {
  code: 'slipped',
  message: 'records moved between the pages while they were read, so one may have slipped past unread',
  hint: AGAIN,
};

const entered: Doubt = {
  code: 'entered',
  message: 'records came onto pages that had been read already, and pushed others on',
  hint: AGAIN,
};

const unwatched: Doubt = {
  code: 'unwatched',
  message: 'the listing is cut by page numbers and tells no total, so records that moved between pages would not show',
  hint: 'name where the service tells the total (page.total), or use offset pages, which show it by themselves',
};

function fewer(met: number, total: number): Doubt {
  return {
    code: 'fewer',
    message: `the listing ended after ${met} records, but tells a total of ${total}`,
    hint: 'if the total counts more than is listed, set page.total: null in the profile; else report it to the service',
  };
}
