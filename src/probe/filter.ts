// Finds the query parameters that list only what changed since a time. Example: since next year, `updated_since=…`
// leaves nothing of the listing, so the service reads it; `checks/filter.ts` then decides whether it lists what it
// should.
import { FAR_AHEAD_MS, type RequestSince, tryFilter } from '../checks/filter.ts';
import type { ListedPage } from '../checks/listing-scan.ts';
import { formatTime } from '../pagination/requests/filter-query.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { changeTime } from './fields.ts';
import { describeResponse, isRefusal, type QueryParams } from './probe-client.ts';
import { learnUnknown, type ProbedListing, type ReadPage, recordKeyText, requestPage } from './probed-listing.ts';
import { FILTERS, NO_SINCE_HINT, SINCE_HINT, TIME_FORMATS } from './vocabulary.ts';

/** A query with `{since}` for the time, and `{u}` and `{c}` for the fields, as `FILTERS` has them. */
type FilterForm = QueryParams;

type TimeFormat = (typeof TIME_FORMATS)[number];

interface Filter {
  form: FilterForm;
  format: TimeFormat;
  evidence: string;
}

/** Parameters that are tried where only one can be requested at a time, and expressions in one parameter. */
const MAX_SINGLE_NAMES = 15;
const MAX_SINGLE_TEXTS = 5;
/** Forms that change the response, but are no filter by time. */
const MAX_DISTURBING = 3;
const LOOKBACK_MS = 600_000;

export async function probeFilter(listing: ProbedListing): Promise<void> {
  const { findings, records, updated, conventions } = listing;
  if (records.length === 0) return findings.guessed(['incremental'], null, 'the listing is empty');
  if (records.every((record) => changeTime(record, updated) === null)) {
    return findings.proved(['incremental'], null, 'there is no time of change to ask for: each sync scans everything');
  }
  const filter = conventions.filter === 'none' ? null : await findFilter(listing);
  if (filter === null) {
    const why =
      conventions.filter === 'none'
        ? 'no filter was found for the resource before'
        : 'no form of a filter that was tried leaves out what did not change; if it can be sorted by change, see mode: newest_first';
    conventions.filter ??= 'none';
    return findings.guessed(['incremental'], null, why);
  }
  conventions.filter = filter;
  const query = fillNames(listing, filter.form);
  const [[param, template] = ['', ''], ...others] = Object.entries(query);
  const one = template === '{since}' ? { param } : { param, template };
  const format = filter.format === 'as_sent' ? {} : { format: filter.format };
  for (const [key, value] of Object.entries({ ...(others.length > 0 ? { query } : one), ...format })) {
    findings.proved(['incremental', key], value, filter.evidence);
  }
}

async function findFilter(listing: ProbedListing): Promise<Filter | null> {
  const { conventions, updated } = listing;
  const { filter: known, parameters } = conventions;
  if (known !== null && known !== 'none') {
    const again = await verifyFilter(
      listing,
      known.form,
      TIME_FORMATS.filter((each) => each === known.format),
    );
    if (again !== null) return again;
  }
  const named = [...parameters].filter((name) => SINCE_HINT.test(name) && !NO_SINCE_HINT.test(name));
  const usual = FILTERS.filter((form) => updated.length > 1 || Object.keys(form).length === 1);
  const { names = [], texts = [] } = Object.groupBy(usual, (form) =>
    Object.values(form).every((takes) => takes === '{since}') ? 'names' : 'texts',
  );
  const all = [...named.map((name) => ({ [name]: '{since}' })), ...names];
  if ((await learnUnknown(listing)) !== 'ignored') {
    const first = likeliestFirst(listing, all).slice(0, MAX_SINGLE_NAMES);
    return findSingly(listing, [...first, ...likeliestFirst(listing, texts).slice(0, MAX_SINGLE_TEXTS)]);
  }
  return (
    (await findTogether(listing, all, TIME_FORMATS[0])) ??
    (await findText(listing, texts)) ??
    (await findTogether(listing, all, TIME_FORMATS[1])) ??
    findTogether(listing, all, TIME_FORMATS[2])
  );
}

/** First the forms with a name that the service has told, then those written like its other parameters, such as `$top`. */
function likeliestFirst({ conventions: { parameters, page } }: ProbedListing, forms: FilterForm[]): FilterForm[] {
  const style = [...parameters, ...Object.values(page?.fields ?? {}).map(String)].join(' ');
  const rank = (form: FilterForm): number => {
    const [name = ''] = Object.keys(form);
    const isNamed = parameters.has(name) || parameters.has(name.split('[')[0] ?? '');
    return (isNamed ? 2 : 0) + (['$', '['].some((sign) => style.includes(sign) && name.includes(sign)) ? 1 : 0);
  };
  return forms.toSorted((a, b) => rank(b) - rank(a));
}

/** One of several forms, requested together and halved until one is left; those that only disturb are left out. */
async function findTogether(listing: ProbedListing, forms: FilterForm[], format: TimeFormat): Promise<Filter | null> {
  let candidates = forms;
  for (let tries = 0; tries < MAX_DISTURBING; tries += 1) {
    let rest = candidates;
    if ((await effectOf(listing, rest, format)) === 'none') return null;
    while (rest.length > 1) {
      const half = rest.slice(0, Math.ceil(rest.length / 2));
      rest = (await effectOf(listing, half, format)) === 'none' ? rest.slice(half.length) : half;
    }
    const [form = {}] = rest;
    const found = await verifyFilter(listing, form, TIME_FORMATS);
    if (found !== null) return found;
    // A parameter that is refused in brackets is read in another form: `filter[a][gte]` where `filter` is a text.
    const isRefused = (await effectOf(listing, [form], format)) === 'refused';
    const nameOf = (each: FilterForm): string => Object.keys(each)[0]?.split('[')[0] ?? '';
    candidates = candidates.filter((each) => each !== form && !(isRefused && nameOf(each) === nameOf(form)));
  }
  return null;
}

/** As a rule, an expression that is not understood is refused: this shows whether a parameter takes expressions at all. */
async function findText(listing: ProbedListing, texts: FilterForm[]): Promise<Filter | null> {
  const ofEachName = [...new Map(texts.toReversed().map((form) => [Object.keys(form)[0], form])).values()];
  return (await effectOf(listing, ofEachName, 'as_sent')) === 'none' ? null : findSingly(listing, texts);
}

async function findSingly(listing: ProbedListing, forms: FilterForm[]): Promise<Filter | null> {
  for (const form of forms) {
    const effect = await effectOf(listing, [form], 'as_sent');
    // If every unknown name is refused, a refusal says nothing about this one.
    const isRead = effect === 'empty' || (effect === 'refused' && listing.conventions.unknown === 'ignored');
    const found = isRead ? await verifyFilter(listing, form, TIME_FORMATS) : null;
    if (found !== null) return found;
  }
  return null;
}

/** The effect of forms with a time to come: a filter lists nothing, or refuses how the time is written. */
async function effectOf(
  listing: ProbedListing,
  forms: readonly FilterForm[],
  format: TimeFormat,
): Promise<'empty' | 'refused' | 'none'> {
  const at = serviceTime(listing) + FAR_AHEAD_MS;
  const { response, records } = await requestSince(listing, Object.assign({}, ...forms), at, format);
  if (records === null) return isRefusal(response) ? 'refused' : 'none';
  return records.length === 0 ? 'empty' : 'none';
}

function serviceTime({ first, clock }: ProbedListing): number {
  return first.serverDate ?? clock.now();
}

/** Requests the listing since a time, which is written like the records' own times. */
function requestSince(listing: ProbedListing, form: FilterForm, at: number, format: TimeFormat): Promise<ReadPage> {
  const { records, updated, firstPage } = listing;
  const times = records.map((record) => fieldAt(record, updated[0] ?? ''));
  const like = times.find((time) => typeof time === 'string' || typeof time === 'number') ?? '';
  const since = formatTime(at, { format }, String(like));
  const params = Object.entries(fillNames(listing, form));
  const query = Object.fromEntries(params.map(([name, text]) => [name, text.replaceAll('{since}', since)]));
  return requestPage(listing, { ...firstPage, ...query });
}

function fillNames({ updated }: ProbedListing, form: FilterForm): QueryParams {
  // Filters name the field of `attributes.updatedAt` without what it is in.
  const [u = '', c = u] = updated.map((path) => path.replace(/^(?:attributes|_source|properties)\./, ''));
  const fill = (text: string): string => text.replaceAll('{u}', u).replaceAll('{c}', c);
  return Object.fromEntries(Object.entries(form).map(([name, text]) => [fill(name), fill(text)]));
}

/** The form with the first of the formats in which it lists nothing, everything and some, as each was requested. */
async function verifyFilter(
  listing: ProbedListing,
  form: FilterForm,
  formats: readonly TimeFormat[],
): Promise<Filter | null> {
  const { id, updated, isComplete, conventions } = listing;
  const toListed = (records: readonly JsonObject[]): ListedPage => {
    const listed = records.map((record) => {
      return { key: recordKeyText(record, id), text: '', at: changeTime(record, updated) ?? -Infinity };
    });
    return { records: listed, total: null, isComplete: isComplete === true };
  };
  const trial = { unfiltered: toListed(listing.records), now: serviceTime(listing), lookback: LOOKBACK_MS };
  for (const format of formats) {
    if ((await effectOf(listing, [form], format)) !== 'empty') continue;
    let last = listing.first;
    const request: RequestSince = async (at) => {
      const { response, records } = await requestSince(listing, form, at, format);
      last = response;
      return records === null ? 'refused' : toListed(records);
    };
    const { is, listed, listsAll } = await tryFilter(request, { ...trial, shown: String });
    if (is !== 'works' || !listsAll) continue;
    const unknown = conventions.unknown === 'ignored' ? 'changes nothing' : 'is refused, or taken for a filter';
    const evidence = `${describeResponse(last)}, ${listed} of ${listing.records.length} records, none earlier; none since next year, all since 1970; an unknown parameter ${unknown}`;
    return { form, format, evidence };
  }
  return null;
}
