// The types of a scan: a page, the end of the listing, the reasons why the scan may be incomplete, and the faults that
// stop it.
import { shortenText } from '../http/body/read-body.ts';
import type { ApiAnswer } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import { visibleText } from '../model/visible-text.ts';
import { type PagePosition, positionText } from './page-styles/page-position.ts';

/** One page of a scan as the caller gets it, in the order of the listing. */
export interface Page extends ScannedPage {
  /** 1 for the first page of the whole scan; a resumed one continues. */
  number: number;
  /** Releases the memory that the page counts for. May be called again. */
  release: () => void;
}

export interface ScannedPage {
  position: PagePosition;
  next: PagePosition | null;
  records: SourceRecord[];
  /** How many of them this scan has returned before, because the page was read again; 0 for any other page. */
  repeatedRecords: number;
  /** Local epoch milliseconds just before the request. */
  requestedAt: number;
  /** The service's clock by the answer's `Date`; null if it has none. */
  serverDate: number | null;
  /** How many records the service says there are in all. */
  total: number | null;
  /** True if pages are cut by number, so that what moves in the listing shifts them. */
  isNumbered: boolean;
  /** Fingerprints of the records' keys (`rows/records/record-key.ts`), also of one that the page before had as its last. */
  keys: Uint8Array;
  /** The most records that a page held so far which named a next one; 0 if none did. */
  fullPageSize: number;
  /** How the scan ended with this page; null if it continues. */
  end: ScanEnd | null;
  /** The response of the last page, in which a service may name where its changes are listed from now on. */
  answer?: ApiAnswer;
}

/**
 * What shows that a listing has ended: a marker, a total or number of pages that is reached, a page shorter than the
 * others, or an empty one. As the profile declares: the page after it was refused by a `status` and its words, it
 * named itself as the next one (`unchanged`), or it is the `whole` list.
 */
export type EndProof = 'signal' | 'total' | 'pages' | 'short' | 'empty' | 'status' | 'unchanged' | 'whole';

/** Why a scan that came to its end may not have seen every record. */
export interface IncompleteReason {
  /**
   * `unproved`: nothing shows that the listing ended. `fewer`: the total was not reached. `slipped`: a record moved
   * between pages, and another one may have moved the other way unnoticed. `entered`: records moved from later pages
   * to pages that were read, which a filter by time lists. `unwatched`: numbered pages without a total show no
   * movement; a second scan with the same result shows that there was none. `cached`: pages show other times than the
   * scan. `unread`: the service refused one of several listings.
   */
  code: 'unproved' | 'fewer' | 'slipped' | 'entered' | 'unwatched' | 'cached' | 'unread';
  /** The observation, as a sentence without its final period. */
  message: string;
  /** The setting to change, or the thing to do. */
  hint: string;
}

/** The end of a scan. It is verified if there is no reason why it may be incomplete. */
export interface ScanEnd {
  /** What shows that the listing has ended; null if nothing does. */
  proof: EndProof | null;
  /** Distinct records that the scan has seen; null if it was resumed without the keys of the pages before. */
  records: number | null;
  incompleteReasons: readonly IncompleteReason[];
  /** The same for two scans that saw the same records on the same pages. */
  keysHash: string;
  /** True if the scan saw the record with this fingerprint of its key. */
  hasSeen: (key: Uint8Array) => boolean;
  /** How many records are missing to the total of the service; null if none are, or nothing says how many. */
  shortfall: MissingRecords | null;
  /**
   * Milliseconds after which a cache returns none of these pages again, or says so; 0 if no cache shows, null if
   * unknown.
   */
  cacheWaitMs: number | null;
}

/** Records that the service counts and the scan has not seen. */
export interface MissingRecords {
  count: number;
  /** True if the total grew during the scan by at least as many: they may all have been created meanwhile. */
  isGrowth: boolean;
}

/** Why a scan cannot continue after a response, as a pure function found it; `pageError` makes it an error. */
export interface PageFault {
  /** Stable: scripts may match on it. */
  code: string;
  message: string;
  /** The operator's next step. */
  hint: string;
  /** True if the page may be whole when it is requested again. */
  mayBeCutOff?: true;
}

/** The response lacks the next page and the end of the listing. */
export function missingFault(message: string, hint: string): PageFault {
  return { code: 'pagination_invalid', message, hint };
}

/** The error that ends a scan. It names the page. */
export function pageError(fault: PageFault, position: PagePosition, cause?: unknown): SyncError {
  const page = shortenText(positionText(position), 300);
  return new SyncError(fault.code, `${visibleText(fault.message)} (page ${page})`, {
    recovery: 'stop',
    hint: visibleText(fault.hint),
    cause,
  });
}
