// The result of a scan: its pages, what proves that the listing has ended, why the scan may be incomplete all the same,
// and the faults that stop it.
import { shortenText } from '../http/body/read-body.ts';
import type { ApiAnswer } from '../http/client.ts';
import { SyncError } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import { visibleText } from '../model/visible-text.ts';
import { type PagePosition, positionText } from './page-styles/page-position.ts';

/** A page as `scanPages` returns it. */
export interface Page extends ScannedPage {
  /** 1 for the first page of the scan; a resumed scan continues the count. */
  number: number;
  /** Releases the memory that is reserved for the page. May be called again. */
  release: () => void;
}

export interface ScannedPage {
  position: PagePosition;
  next: PagePosition | null;
  records: SourceRecord[];
  /** How many of `records` this scan has returned before, because the page was read again; otherwise 0. */
  repeatedRecords: number;
  /** Local epoch milliseconds just before the request. */
  requestedAt: number;
  /** The service's clock by the header `Date` of the response; null if it has none. */
  serverDate: number | null;
  /** How many records the service says there are in all. */
  total: number | null;
  /** True if pages are cut by number or offset, so that a deleted record shifts all pages after it. */
  isNumbered: boolean;
  /** Hashes of the records' keys (`rows/records/record-key.ts`), including a record that the page before ended with. */
  keys: Uint8Array;
  /** Records on the largest page so far that named a next one; 0 if none did. */
  fullPageSize: number;
  /** How the scan ended with this page; null if it continues. */
  end: ScanEnd | null;
  /** The response, if this is the last page: a service may name in it the first cursor of its feed of changes. */
  answer?: ApiAnswer;
}

/**
 * What proves that a listing has ended: a marker (`signal`), a total or number of pages that is reached, a page shorter
 * than the others, or an empty one. If the profile declares it: the page after it was refused with a `status`, it named
 * itself as the next one (`unchanged`), or the response is the `whole` list.
 */
export type EndProof = 'signal' | 'total' | 'pages' | 'short' | 'empty' | 'status' | 'unchanged' | 'whole';

/** Why a scan that came to its end may not have seen every record. */
export interface IncompleteReason {
  /**
   * - `unproved`: nothing proves that the listing ended.
   * - `fewer`: the total was not reached.
   * - `slipped`: a record moved between pages, so another one may have moved the other way, unseen.
   * - `entered`: records moved from later pages to pages that were read before; a filter by time lists them.
   * - `unwatched`: numbered pages without a total do not show movement; a second scan with the same result shows that
   *   there was none.
   * - `cached`: a cache returned pages from before the scan.
   * - `unread`: the service refused one of several listings.
   */
  code: 'unproved' | 'fewer' | 'slipped' | 'entered' | 'unwatched' | 'cached' | 'unread';
  /** The observation, as a sentence without its final period. */
  message: string;
  /** The setting to change, or the thing to do. */
  hint: string;
}

/** The end of a scan. It is verified if there is no reason why it may be incomplete. */
export interface ScanEnd {
  /** What proves that the listing has ended; null if nothing does. */
  proof: EndProof | null;
  /** Distinct records that the scan has seen; null if it was resumed without the keys of the pages before. */
  records: number | null;
  incompleteReasons: readonly IncompleteReason[];
  /** Equal for two scans that saw the same records on the same pages. */
  keysHash: string;
  /** True if the scan saw the record with this hash of its key. */
  hasSeen: (key: Uint8Array) => boolean;
  /** How many records of the service's total the scan has not seen; null if it has seen all, or there is no total. */
  shortfall: MissingRecords | null;
  /**
   * Milliseconds after which a cache no longer returns these pages, or returns them with an age; 0 if there is no sign of
   * a cache, null if unknown.
   */
  cacheWaitMs: number | null;
}

/** Records that the service counts and the scan has not seen. */
export interface MissingRecords {
  count: number;
  /** True if the total grew during the scan by at least as many: they may all have been created meanwhile. */
  isGrowth: boolean;
}

/** Why a scan cannot continue after a response; `pageError` turns it into an error. */
export interface PageFault {
  /** Stable: scripts may match on it. */
  code: string;
  message: string;
  /** The operator's next step. */
  hint: string;
  /** True if the page may be whole when it is requested again. */
  mayBeCutOff?: true;
}

/** The fault of a response that says neither how to continue nor that the listing has ended. */
export function missingFault(message: string, hint: string): PageFault {
  return { code: 'pagination_invalid', message, hint };
}

/** Creates the error that ends a scan. It names the page. */
export function pageError(fault: PageFault, position: PagePosition, cause?: unknown): SyncError {
  const page = shortenText(positionText(position), 300);
  return new SyncError(fault.code, `${visibleText(fault.message)} (page ${page})`, {
    recovery: 'stop',
    hint: visibleText(fault.hint),
    cause,
  });
}
