import type { Page } from '../../extract/page.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { boundsTogether, filterName } from '../../source/filter-places.ts';
import { NAMED_FORMATS, type IncrementalProfile } from '../../source/incremental.ts';
import { writtenMoment } from '../cursor/since.ts';
import { filterSince, filterText, type ExtraQuery } from '../listing-walk.ts';
import type { RequestContext } from '../resource-context.ts';
import type { CheckFinding } from './finding.ts';
import { askFirstPage, pageAsListed, type FirstPage, type Listed } from './first-page.ts';

/** By then no service has changed anything yet; and before the other, none had. */
const FAR_AHEAD_MS = 366 * 86_400_000;
const FAR_BACK_MS = 86_400_000;
/** A filter by days, or one that reads another zone, lists records that changed so long before the moment. */
const MOST_EARLIER_MS = 48 * 3_600_000;
/** A parameter that no service has. */
const CONTROL = 'content_sync_control';

const NO_FILTER = 'set `incremental: null` in the profile: then every sync walks fully and writes only what changed';
const OTHER_FORM = `set incremental.param, incremental.template and incremental.format in the profile as the service reads them; else ${NO_FILTER}`;
/** Tried where the profile's own does not work. */
const OTHER_FORMATS = [
  ...NAMED_FORMATS,
  'yyyy-MM-dd HH:mm:ss',
  "yyyy-MM-dd'T'HH:mm:ss",
  'yyyy-MM-dd',
  'yyyyMMddHHmmss',
] as const;

/** The service's listings, each asked for once; null if it refuses the request. */
interface FilterAnswers {
  /** Without a filter. */
  plain: FirstPage;
  /** Since a moment that has not come yet. */
  ahead: FirstPage | null;
  /** Since a moment before all others. */
  back: FirstPage | null;
  /** Since a moment in the middle of the listed records; absent if all of them have one time. */
  middle?: { at: number; page: FirstPage | null };
  /** With a parameter that no service has, of the same value as `ahead`. */
  control: FirstPage | null;
}

/** Asks for nothing, everything and some of the listing as a sync does, and with a parameter of no meaning. */
export async function filterFinding(
  context: RequestContext,
  page: Page,
  incremental: IncrementalProfile,
): Promise<CheckFinding> {
  const plain = pageAsListed(page, context.profile);
  const name = filterName(incremental);
  if (plain.records.length === 0) {
    return { check: 'filter', status: 'warn', detail: `${name} cannot be tried on an empty listing` };
  }
  const aheadAt = (page.serverDate ?? context.clock.now()) + FAR_AHEAD_MS;
  const question = { plain, aheadAt };
  const { moment, asked, answers } = await askFilter(context, incremental, question);
  const shown = (at: number): string => filterText(incremental, asked(at));
  const fault = filterFault(answers, shown, aheadAt);
  if (fault !== null) {
    const other = await workingFormat(context, incremental, question);
    const hint =
      other === null
        ? fault.hint
        : `set incremental.format to "${other}" in the profile: with that it lists what it should`;
    return { check: 'filter', status: statusOf(context), ...fault, ...(hint === undefined ? {} : { hint }) };
  }
  const { middle, control } = answers;
  const some = middle === undefined ? '' : `, ${countOf(middle.page, plain)} since ${moment(middle.at)}`;
  const detail = `${name} leaves out what did not change: none in a year, all since 1970${some}; ${controlText(control)}`;
  return { check: 'filter', status: 'ok', detail };
}

interface FilterQuestion {
  plain: FirstPage;
  aheadAt: number;
}

/** `moment` writes epoch milliseconds as the filter takes them, `asked` is the request with that. */
async function askFilter(
  context: RequestContext,
  incremental: IncrementalProfile,
  { plain, aheadAt }: FilterQuestion,
): Promise<{ moment: (at: number) => string; asked: (at: number) => ExtraQuery; answers: FilterAnswers }> {
  const like = plain.records.find(({ at }) => at > -Infinity)?.text ?? '';
  const zone = updatedZone(context.profile);
  const moment = (at: number): string => writtenMoment(at, incremental, like, zone);
  // Where begin and end of a window cannot be told apart, it ends behind all that is asked for.
  const until = boundsTogether(context.profile) ? moment(aheadAt + FAR_AHEAD_MS) : null;
  const asked = (at: number): ExtraQuery => filterSince(incremental, moment(at), until);
  const since = (at: number): Promise<FirstPage | null> => askFirstPage(context, asked(at));
  const middleAt = middleOf(plain.records, incremental.overlap);
  const ahead = await since(aheadAt);
  // A request that is refused is not made better by another moment.
  if (ahead === null) return { moment, asked, answers: { plain, ahead, back: null, control: null } };
  const answers = {
    plain,
    ahead,
    back: await since(FAR_BACK_MS),
    ...(middleAt === null ? {} : { middle: { at: middleAt, page: await since(middleAt) } }),
    control: await askFirstPage(context, { extraQuery: { [CONTROL]: moment(aheadAt) } }),
  };
  return { moment, asked, answers };
}

/** Of the other formats the first in which the filter does what it should; null if none does, or nothing could tell. */
async function workingFormat(
  context: RequestContext,
  incremental: IncrementalProfile,
  question: FilterQuestion,
): Promise<string | null> {
  if (middleOf(question.plain.records, incremental.overlap) === null) return null;
  for (const format of OTHER_FORMATS.filter((each) => each !== incremental.format)) {
    const { answers } = await askFilter(context, { ...incremental, format }, question);
    if (filterFault(answers, () => '', question.aheadAt) === null) return format;
  }
  return null;
}

function statusOf({ profile }: RequestContext): CheckFinding['status'] {
  return profile.accept.includes('filter') ? 'warn' : 'fail';
}

/**
 * A moment with listed records before and after it: as a sync asks, a while before a record's time, so that a service
 * that compares texts shows it. Null if all have one time.
 */
function middleOf(records: readonly Listed[], overlap: number): number | null {
  const times = [...new Set(records.map(({ at }) => at))].filter((at) => at > -Infinity).toSorted((a, b) => a - b);
  const index = Math.ceil((times.length - 1) / 2);
  const [before, at] = [times[index - 1], times[index]];
  if (before === undefined || at === undefined) return null;
  return at - Math.min(overlap, Math.floor((at - before) / 2));
}

type Fault = Pick<CheckFinding, 'detail' | 'hint'>;

/** The fault of the filter that the answers show; null if there is none. Pure. */
function filterFault(answers: FilterAnswers, asked: (at: number) => string, aheadAt: number): Fault | null {
  const { plain, ahead, back, middle, control } = answers;
  if (ahead === null || back === null || middle?.page === null) {
    const refused = asked(ahead === null ? aheadAt : back === null ? FAR_BACK_MS : (middle?.at ?? 0));
    return { detail: `the service refuses ${refused}`, hint: OTHER_FORM };
  }
  const early = ahead.records.filter(({ at }) => at < aheadAt).length;
  if (early > 0) {
    return { detail: `${asked(aheadAt)} still lists ${early} records: the service ignores it`, hint: NO_FILTER };
  }
  if (control !== null && control.records.length === 0) {
    const detail = `${CONTROL}, which no service knows, leaves out everything as well: what ${asked(aheadAt)} does proves nothing`;
    return { detail, hint: OTHER_FORM };
  }
  return lackingFault(answers, back, asked) ?? (middle === undefined ? null : middleFault(plain, middle, asked));
}

/** Since a moment before all others, all must be listed. */
function lackingFault({ plain, ahead }: FilterAnswers, back: FirstPage, asked: (at: number) => string): Fault | null {
  if (back.records.length === 0) {
    return { detail: `${asked(FAR_BACK_MS)} lists nothing: the filter matches no record`, hint: OTHER_FORM };
  }
  // A total that counts what is not listed as well says nothing here.
  const isTold = plain.total !== null && back.total !== null && (ahead?.total ?? 0) < plain.total;
  const [all, found] = isTold ? [plain.total, back.total] : [plain.records.length, back.records.length];
  const lacking = (all ?? 0) - (found ?? 0);
  // Records without a time of change are reported on their own.
  const untimed = plain.records.filter(({ at }) => at === -Infinity).length;
  if (lacking <= untimed) return null;
  return {
    detail: `${asked(FAR_BACK_MS)} lists ${found} of ${all} records: the other ${lacking} can never be found by the filter`,
    hint: `they may have no time of change: name another field as \`updated\`; else ${NO_FILTER}`,
  };
}

/** Of the records that are known from the page without a filter, those after the moment, and hardly any before it. */
function middleFault(
  plain: FirstPage,
  { at, page }: NonNullable<FilterAnswers['middle']>,
  asked: (at: number) => string,
): Fault | null {
  const listed = page?.records ?? [];
  const earliest = Math.min(...listed.map((record) => record.at).filter((time) => time > -Infinity), at);
  if (earliest < at - MOST_EARLIER_MS) {
    const detail = `${asked(at)} also lists what last changed at ${new Date(earliest).toISOString()}`;
    return { detail: `${detail}: the service reads the moment otherwise`, hint: OTHER_FORM };
  }
  const keys = new Set(listed.map(({ key }) => key));
  const wanted = plain.records.filter((record) => record.at > at);
  const missing = isWhole(page, plain) ? wanted.filter(({ key }) => !keys.has(key)) : [];
  const [first] = missing;
  if (first !== undefined || (listed.length === 0 && wanted.length > 0)) {
    const example = first === undefined ? 'anything' : `${first.key}, which changed at ${first.text}`;
    return {
      detail: `${asked(at)} does not list ${example}: the service reads the moment otherwise`,
      hint: OTHER_FORM,
    };
  }
  return null;
}

/** A page that is shorter than the one without a filter is the last one, whatever else it says. */
function isWhole(page: FirstPage | null, plain: FirstPage): boolean {
  return page !== null && (page.isWhole || page.records.length < plain.records.length);
}

function countOf(page: FirstPage | null, plain: FirstPage): string {
  const count = page?.records.length ?? 0;
  return isWhole(page, plain) ? String(count) : `${count} and more`;
}

function controlText(control: FirstPage | null): string {
  return control === null ? 'an unknown parameter is refused' : 'an unknown parameter changes nothing';
}
