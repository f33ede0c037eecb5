import type { AnswerHold } from '../../http/body/answer-memory.ts';
import type { ApiAnswer, ApiClient, ApiRequest, RequestMeter } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { AnswerRule } from '../../config/profile/http-fields.ts';
import { declaredEnd, type PageProfile } from '../../config/profile/page-style.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { EmptySpelling } from '../../config/profile/record-fields.ts';
import { pageError, type PageFault } from '../page.ts';
import { requestAt, type RequestParts } from '../page-styles/listing-request.ts';
import { isSamePosition, type PagePosition } from '../page-styles/page-position.ts';

/** How all pages of a scan are requested. */
export interface RequestOptions {
  client: ApiClient;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
  /** Whose pages they are: what a refusal means depends on how they are cut. */
  resource: { page: PageProfile; empty?: ResourceProfile['empty'] };
  /** How the service says that a range is too large; absent or null if it does not. */
  tooLarge?: AnswerRule | null | undefined;
}

/** The options that may differ from page to page. */
interface OnePageOptions {
  hold?: AnswerHold;
  whenFull?: 'fail';
  skips?: AnswerRule;
  stop?: AbortSignal;
}

/** Requests a page by its position. */
export type RequestPage = (position: PagePosition, options?: OnePageOptions) => Promise<ApiAnswer>;

/** Codes of an answer that, in the middle of a listing, means that the service no longer knows the position. */
const EXPIRED_CODES: ReadonlySet<string> = new Set(['not_found', 'gone', 'bad_request']);

/** The refusal of a page past the end, as the profile declares it. */
export class PastEnd extends SyncError {}

/** True if the service no longer knows the requested position. */
export function isExpired(error: unknown): error is SyncError {
  return error instanceof SyncError && error.code === 'cursor_expired';
}

/** Codes of a response that refuses this one listing or window, while others of the same service may be readable. */
const UNIT_REFUSAL =
  /^(?:bad_(?:request|content|cursor|json|link_header|next|page|text)|not_(?:found|supported|the_api)|(?:guard|pagination)_\w+|gone|busy|empty_body|error_in_body|forbidden|foreign_next|listing_missing|outcome_rule|page_too_short|partial_answer|redirect_refused|service_error|too_many_redirects|unexpected_status)$/;

/** True if the service refused one of several listings or windows, so that the others can still be read. */
export function isUnitRefusal(error: unknown): error is SyncError {
  return error instanceof SyncError && UNIT_REFUSAL.test(error.code);
}

/** Codes by which a page is refused that may not be there. */
export const REFUSED_CODES: ReadonlySet<string> = new Set([...EXPIRED_CODES, 'cursor_expired', 'listing_missing']);

/**
 * Returns the function that requests pages of one listing by their position. It throws what the client throws; but a
 * refusal (404, 410, another 4xx, outcome `skip`) of any page except the first is `cursor_expired`: the scan has to start
 * again from the beginning. What is too much at once is `window_too_large`.
 */
export function pageRequester(options: RequestOptions, parts: RequestParts, first: PagePosition): RequestPage {
  const { client, lane, meter, resource } = options;
  const { status, body } = declaredEnd(resource.page);
  const tooLarge = options.tooLarge ?? undefined;
  const pastLast = status.length === 0 ? tooLarge : { status, body };
  return async (position, { stop, skips: refusal, ...asked } = {}) => {
    const isFirst = isSamePosition(position, first);
    const signals = [options.signal, stop].filter((signal) => signal !== undefined);
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    let isNothing = false;
    const isGone: ApiRequest['isGone'] = (found) => (isNothing = saysNothing(found, resource.empty, isFirst));
    const skips = refusal ?? (isFirst ? tooLarge : pastLast);
    try {
      const request = requestAt(parts, position);
      const answer = await client.get({ ...request, lane, meter, signal, skips, isGone, ...asked });
      if (answer.outcome === 'ok') return answer;
      if (isNothing) return { ...answer, outcome: 'ok' };
      if (answer.code === 'declared' && skips === tooLarge) throw pageError(TOO_LARGE, position);
      if (answer.code === 'declared') {
        const { code, message, recovery, hint } = expiredError(position, resource.page);
        throw new PastEnd(code, message, { recovery, hint });
      }
    } catch (error) {
      const expired = error instanceof SyncError && EXPIRED_CODES.has(error.code) && !isFirst;
      throw expired ? expiredError(position, resource.page, error) : withEmptyHint(error);
    }
    throw isFirst ? pageError(SKIPPED, position) : expiredError(position, resource.page);
  };
}

/** True for a response without a JSON list that says, by the profile, that nothing is listed. */
export function saysNothing(
  { status, json }: { status: number; json: JsonValue | undefined },
  empty: readonly EmptySpelling[] = [],
  isFirst = false,
): boolean {
  if (status === 204) return empty.includes(204);
  return status === 404 ? isFirst && empty.includes(404) : status < 300 && json === null && empty.includes(null);
}

/** Statuses in place of an empty list, by the code of their error. */
const NOTHING_BY_CODE: ReadonlyMap<string, number> = new Map([
  ['empty_body', 204],
  ['not_found', 404],
]);

/** The error, with the name of the setting by which the same response lists nothing. */
export function withEmptyHint(error: unknown): unknown {
  const status = error instanceof SyncError ? NOTHING_BY_CODE.get(error.code) : undefined;
  if (!(error instanceof SyncError) || status === undefined) return error;
  const { code, message, recovery, requestId, cause } = error;
  const advice = `If status ${status} means that nothing is listed, set empty: [${status}] in the profile.`;
  const hint = error.hint === undefined ? advice : `${error.hint} ${advice}`;
  return new SyncError(code, message, { recovery, hint, requestId, cause });
}

const TOO_LARGE: PageFault = {
  code: 'window_too_large',
  message: 'The service refuses the range as too large, by windows.too_large in the profile',
  hint: 'A range is cut in two until it is one window: set windows.largest, or a finer windows.granularity.',
};

const SKIPPED: PageFault = {
  code: 'listing_missing',
  message: 'The first page of the listing has the outcome skip, by outcomes in the profile',
  hint:
    'skip says that a single record is gone and has no meaning for a listing: narrow that row down (status, header, ' +
    'body), or check the path of the resource.',
};

/** The code is the same in all styles: a record that was deleted may have taken the last page with it. */
function expiredError(position: PagePosition, page: PageProfile, cause?: SyncError): SyncError {
  const isNumbered = page.style === 'page' || page.style === 'offset';
  const what = isNumbered ? 'refuses this page of the listing' : 'does not know this page of the listing';
  const fault = {
    code: 'cursor_expired',
    message: `The service ${what}${cause === undefined ? '' : `: ${cause.message}`}`,
    hint: isNumbered ? pastEndHint(page) : EXPIRED_HINT,
  };
  return pageError(fault, position, cause);
}

const EXPIRED_HINT =
  'Positions expire in some services. A run then begins again from the beginning by itself, once; if that ends here ' +
  'too, ask for larger pages (page.size in the profile), or compare page there with an answer of the service.';

/** Without a total, the page after the last one is requested. */
function pastEndHint({ total = null, pages = null }: PageProfile): string {
  if (total === null && pages === null) {
    return (
      'Where a service refuses pages past the end, something must tell where that is: set page.total (records) or ' +
      'page.pages in the profile to where its answers tell how many there are, such as meta.total or header:X-Total; if ' +
      'they tell neither, page.end.status and page.end.body to how it refuses them.'
    );
  }
  return (
    `The pages before it did not reach the end, as ${total === null ? 'page.pages' : 'page.total'} tells it ` +
    `(${total ?? pages}): compare that with an answer of the service. If it counts more than is listed, no end can be told.`
  );
}
