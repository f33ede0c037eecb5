import { SyncError } from '../../model/errors.ts';
import { snippet } from '../../http/body/safe-text.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { PagePosition, Page } from '../page.ts';
import type { SourceRecord } from '../../model/json.ts';
import { FingerprintSet } from './key-set.ts';

/** Why a walk cannot go on from an answer, found by a pure function; `walkError` makes it an error. */
export interface GuardFault {
  /** Stable: scripts may match on it. */
  code: string;
  message: string;
  /** The operator's next step. */
  hint: string;
}

/** The lack of what tells of the next page, or of the end of the listing. */
export function missingFault(message: string, hint: string): GuardFault {
  return { code: 'pagination_missing', message, hint };
}

/** The error that ends a walk: it names the page, and is never a reason to take the listing for complete. */
export function walkError(fault: GuardFault, position: PagePosition, cause?: unknown): SyncError {
  return new SyncError(fault.code, `${visibleText(fault.message)} (page ${snippet(readable(position), 300)})`, {
    recovery: 'stop',
    hint: visibleText(fault.hint),
    cause,
  });
}

/** The position with what stands in headers and body as JSON. */
function readable(position: PagePosition): string {
  const [address = '', values] = position.split('#');
  if (values === undefined) return address;
  try {
    return `${address} ${decodeURIComponent(values)}`;
  } catch {
    return position;
  }
}

/** Empty pages in a row that may still promise a next one. */
const MOST_EMPTY_PAGES = 10;

/**
 * In a numbered listing, records that are created at its head push the others on, so that a page may repeat the one
 * before it. The second page of a service that does not know the page parameter is the first one, whatever its size.
 */
const MIN_FULL_PAGE = 10;
const MAX_PUSHED_PAGES = 3;

const REPEATED_HINT =
  'A feed that has come to its end often gives its last position again. If the service says the end in another field, ' +
  'name that in the profile (page.has_more); else check page there: the listing is not taken for complete.';
const PARAMETER_HINT =
  'The service may not know the page parameter, or take page 0 for page 1 (page.first): compare page in the profile with its documentation.';
const CYCLE_HINT =
  'The service goes in circles and the listing is not complete: report it there; check page in the profile.';

type Checked = Pick<Page, 'position' | 'next' | 'records'>;

/**
 * Watches one walk, page by page and in order, for a service that goes in circles. `admit` throws the `SyncError`
 * that ends the walk; a page that it lets through may be written.
 */
export class WalkGuard {
  private readonly positions = new FingerprintSet();
  private readonly contents = new FingerprintSet();
  private readonly drifts: boolean;
  private emptyPages = 0;
  private repeatedPages = 0;
  private pages = 0;

  /** `drifts`: pages are cut by number, so a moving listing shifts them. `start`: where the walk begins. */
  constructor(drifts: boolean, start: PagePosition) {
    this.drifts = drifts;
    this.positions.add(start);
  }

  admit(page: Checked): void {
    this.refuseCircle(page);
    this.refuseEmptiness(page);
    this.refuseStandstill(page);
  }

  private refuseCircle({ position, next }: Checked): void {
    if (next === null || this.positions.add(next)) return;
    const repeated = next === position;
    const fault = {
      code: repeated ? 'guard_repeated_cursor' : 'guard_cycle',
      message: repeated ? 'The page names itself as the next page' : 'The next page is one that was read before',
      hint: repeated ? REPEATED_HINT : CYCLE_HINT,
    };
    throw walkError(fault, position);
  }

  private refuseEmptiness({ position, next, records }: Checked): void {
    this.emptyPages = records.length === 0 ? this.emptyPages + 1 : 0;
    if (next === null || this.emptyPages <= MOST_EMPTY_PAGES) return;
    const fault = {
      code: 'guard_empty_pages',
      message: `${this.emptyPages} pages in a row were empty, and each promised a next one`,
      hint: 'Run again; if it stays, check page in the profile (a total that counts more than is listed promises too much).',
    };
    throw walkError(fault, position);
  }

  private refuseStandstill({ position, records }: Checked): void {
    if (records.length === 0) return;
    this.pages += 1;
    this.repeatedPages = this.contents.add(outlineOf(records)) ? 0 : this.repeatedPages + 1;
    const isSecond = this.pages === 2;
    const mayBePushed = this.drifts && (!isSecond || records.length < MIN_FULL_PAGE);
    const allowed = mayBePushed ? MAX_PUSHED_PAGES : 0;
    if (this.repeatedPages <= allowed) return;
    const isUnknown = isSecond || this.pages === this.repeatedPages + 1;
    const fault = {
      code: 'guard_page_repeated',
      message: `The page carries the same ${records.length} records as a page before it`,
      hint: isUnknown ? PARAMETER_HINT : CYCLE_HINT,
    };
    throw walkError(fault, position);
  }
}

/** Tells pages apart without reading all of them: the first and last record, and the length of each. */
function outlineOf(records: readonly SourceRecord[]): string {
  const lengths = records.map(({ bytes }) => bytes.length).join(',');
  return `${records.at(0)?.bytes.toString('latin1')}\n${records.at(-1)?.bytes.toString('latin1')}\n${lengths}`;
}
