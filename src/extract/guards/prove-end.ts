import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { REFUSED_CODES } from '../requests/ask.ts';
import { walkError, type GuardFault } from './guard-fault.ts';
import type { PagePosition } from '../page.ts';
import type { PageStep, PageStyle } from '../page-styles/page-style.ts';
import { withPlaces } from '../page-styles/page-variables.ts';
import { positionOf } from '../page-styles/position.ts';
import { readPage, type ReadableResource, type ReadPage } from '../requests/read-page.ts';
import type { EndProof } from './walk-end.ts';

/** The last page by its page style, and what its walk knows. */
export interface LastPage {
  read: ReadPage;
  step: Exclude<PageStep, { next: PagePosition }>;
  resource: ReadableResource;
  style: PageStyle;
  /** The first request of the listing. */
  first: URL;
  /** Asks for a page out of its turn. */
  ask: (position: PagePosition) => Promise<ApiAnswer>;
  /** Records so far, and on the largest page that named a next one, or was proved to be the last by a smaller one. */
  met: number | null;
  kept: number;
  /** True if the profile accepts an end that nothing proves. */
  acceptsEnd: boolean;
}

export interface ProvedEnd {
  /** Null if nothing shows the end. */
  proof: EndProof | null;
  /** The lack of a proof; null if there is one. */
  fault: GuardFault | null;
  kept: number;
}

/** The result of asking for a page with a record less, after which there must be a next one. */
type Trial = 'names_next' | 'names_none' | 'says_nothing';

/**
 * The proof that a listing ends with this page. If the service only leaves out to name a next page, it is tried whether
 * it names one where there must be one. Throws if the answer speaks for more records than came; if nothing
 * speaks for either, there is no proof.
 */
export async function proveEnd(last: LastPage): Promise<ProvedEnd> {
  const { read, step, met, kept } = last;
  const proved = (proof: EndProof): ProvedEnd => ({ proof, fault: null, kept });
  const ties = tieFault(last.resource);
  if (ties !== null) {
    const isTotal = read.total !== null && met !== null && met >= read.total;
    return isTotal ? proved('total') : { proof: null, fault: ties, kept };
  }
  // A page behind the last one may count on for ever.
  if (read.records.length === 0) return proved(step.end ?? 'empty');
  const { more } = read.signals;
  const hasAll = read.total !== null && met !== null && met >= read.total;
  if (step.end !== null || hasAll) {
    const where = `The last page by page.style ${last.resource.page.style} says that more follows at ${more}`;
    return more === null ? proved(step.end ?? 'total') : { proof: null, fault: unnamedFault(where), kept };
  }
  const trial = more === null ? await tryLess(last) : 'names_none';
  // Whoever gives so many and names no next page then has no more: nor has a shorter page.
  if (trial === 'names_next') return { ...proved('signal'), kept: Math.max(kept, read.records.length) };
  const hint = more === null ? step.fault.hint : `The response says at ${more}. ${step.fault.hint}`;
  const fault = { ...step.fault, hint };
  if (!last.acceptsEnd && (trial === 'names_none' || isFull(last))) throw walkError(fault, positionOf(read.url));
  return { proof: null, fault, kept };
}

/** The doubt about pages that begin behind a value which several records may share; null for any others. */
export function tieFault({ page, id, partition }: ReadableResource): GuardFault | null {
  if (page.style !== 'keyset') return null;
  // Within one listing of several, the field that says which one it is tells no records apart.
  const others = [id].flat().filter((field) => field !== partition?.field);
  if (others.length === 1 && others[0] === page.cursor_field) return null;
  return {
    code: 'pagination_missing',
    message: `Pages begin behind the last ${page.cursor_field}, and records that share it may have been skipped`,
    hint: 'Set page.cursor_field in the profile to the id, or page.total to where the service tells how many there are.',
  };
}

/** As many records as were asked for, or fewer than the service says there are: more of them are likely. */
function isFull({ read, resource: { page }, kept }: LastPage): boolean {
  const received = read.records.length;
  return read.total !== null || (kept > 0 && received >= kept) || (page.size_param !== null && received >= page.size);
}

function unnamedFault(message: string): GuardFault {
  return {
    code: 'pagination_missing',
    message,
    hint: 'If that is where the service tells of more pages, name it in the page section of the profile.',
  };
}

/** Asks for the same page with a record less: a service that names next pages names one then. */
async function tryLess({ read, resource, style, first, ask }: LastPage): Promise<Trial> {
  const { size_param: param } = resource.page;
  const wanted = read.records.length - 1;
  if (param === null || wanted < 1) return 'says_nothing';
  const url = withPlaces(read.url, { [param]: wanted });
  const cut = await readQuietly(ask, url, resource);
  if (cut === null || cut.records.length !== wanted) return 'says_nothing';
  const { headers, json, withheld, url: answeredUrl } = cut.answer;
  const counts = {
    records: cut.records,
    received: wanted,
    isEmpty: false,
    seen: wanted,
    total: null,
    pages: null,
    kept: 0,
  };
  const step = style.next({ url, answeredUrl, baseUrl: first, headers, json, withheld, ...counts });
  // One that names itself leads nowhere.
  return 'next' in step && step.next !== positionOf(url) ? 'names_next' : 'names_none';
}

/** Null if the service refuses the request, or its answer is no page. */
export async function readQuietly(
  ask: LastPage['ask'],
  url: URL,
  resource: ReadableResource,
): Promise<ReadPage | null> {
  try {
    const read = readPage(await ask(positionOf(url)), url, resource);
    return 'code' in read ? null : read;
  } catch (error) {
    if (error instanceof SyncError && REFUSED_CODES.has(error.code)) return null;
    throw error;
  }
}
