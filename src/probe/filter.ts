// Finds the query parameters that list only what changed since a time.
import { FAR_AHEAD_MS, type RequestSince, tryFilter } from '../checks/filter.ts';
import type { ListedPage } from '../checks/listing-scan.ts';
import { formatTime } from '../checks/since.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { changeTime } from './fields.ts';
import { describeResponse, isRefusal, type QueryParams } from './probe-client.ts';
import { learnUnknown, type ProbedListing, recordKeyText, requestPage } from './probed-listing.ts';
import {
  BRACKET_PARAMS,
  EITHER_FIELD,
  FIELD_PARAMS,
  FILTER_TEXTS,
  NO_SINCE_HINT,
  SINCE_HINT,
  SINCE_PARAMS,
  TIME_FORMATS,
} from './vocabulary.ts';

/**
 * How a filter takes a time: query parameters by name, with `{since}` for the time, `{u}` for the field with the time of
 * change and `{c}` for the field that replaces it if it is null.
 */
type FilterForm = QueryParams;

type TimeFormat = (typeof TIME_FORMATS)[number];

/** Forms of one group that are tried one by one if they cannot be requested together. */
const MAX_SINGLE = 5;
/** Forms that change the response, but are no filter by time. */
const MAX_DISTURBING = 3;
const LOOKBACK_MS = 600_000;

function filterGroups({ conventions: { parameters, page }, updated }: ProbedListing): (readonly FilterForm[])[] {
  const hints = [...parameters].filter((name) => SINCE_HINT.test(name) && !NO_SINCE_HINT.test(name));
  const ownNames = [...new Set([...hints, ...SINCE_PARAMS])];
  const isBracketed = [...parameters, ...Object.values(page?.fields ?? {})].some((name) => /[[$]/.test(String(name)));
  const names = isBracketed ? [BRACKET_PARAMS, ownNames, FIELD_PARAMS] : [ownNames, FIELD_PARAMS, BRACKET_PARAMS];
  const groups = names.map((group) => group.map((name): FilterForm => ({ [name]: '{since}' })));
  return updated.length > 1 ? [EITHER_FIELD, ...groups] : groups;
}

/** A few forms, first those written as the service writes its other parameters. */
function alikeFirst({ conventions: { parameters, page } }: ProbedListing, forms: readonly FilterForm[]): FilterForm[] {
  const style = [...parameters, ...Object.values(page?.fields ?? {}).map(String)].join(' ');
  const rank = (form: FilterForm): number => {
    const [name = ''] = Object.keys(form);
    const isNamed = parameters.has(name) || parameters.has(name.split('[')[0] ?? '');
    return (isNamed ? 2 : 0) + (['$', '['].some((sign) => style.includes(sign) && name.includes(sign)) ? 1 : 0);
  };
  return forms.toSorted((a, b) => rank(b) - rank(a)).slice(0, MAX_SINGLE);
}

interface Filter {
  form: FilterForm;
  format: TimeFormat;
  evidence: string;
}

export async function probeFilter(listing: ProbedListing): Promise<void> {
  const { findings, records, updated, conventions } = listing;
  if (records.length === 0) return findings.guessed(['incremental'], null, 'the listing is empty');
  if (records.every((record) => changeTime(record, updated) === null)) {
    return findings.proved(['incremental'], null, 'there is no time of change to ask for: each sync scans everything');
  }
  const filter = await findFilter(listing);
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

function fillNames({ updated }: ProbedListing, form: FilterForm): QueryParams {
  // Filters name the field of `attributes.updatedAt` without what it is in.
  const [u = '', c = u] = updated.map((path) => path.replace(/^(?:attributes|_source|properties)\./, ''));
  const fill = (text: string): string => text.replaceAll('{u}', u).replaceAll('{c}', c);
  return Object.fromEntries(Object.entries(form).map(([name, text]) => [fill(name), fill(text)]));
}

async function findFilter(listing: ProbedListing): Promise<Filter | null> {
  const { filter: known } = listing.conventions;
  if (known === 'none') return null;
  const formats = TIME_FORMATS.filter((format) => format === known?.format);
  const again = known === null ? null : await verifyFilter(listing, known.form, formats);
  if (again !== null) return again;
  const groups = filterGroups(listing);
  const searches =
    (await learnUnknown(listing)) === 'ignored'
      ? [
          () => findTogether(listing, groups.flat(), 'as_sent'),
          () => findExpression(listing),
          () => findTogether(listing, groups.flat(), TIME_FORMATS[1]),
          () => findTogether(listing, groups.flat(), TIME_FORMATS[2]),
        ]
      : [...groups, FILTER_TEXTS].map((forms) => () => findSingly(listing, alikeFirst(listing, forms)));
  for (const search of searches) {
    const found = await search();
    if (found !== null) return found;
  }
  return null;
}

/** One of several forms, requested together and halved until one is left; those that only disturb are left out. */
async function findTogether(
  listing: ProbedListing,
  forms: readonly FilterForm[],
  format: TimeFormat,
): Promise<Filter | null> {
  let candidates = forms;
  for (let tries = 0; tries < MAX_DISTURBING; tries += 1) {
    let rest = candidates;
    if ((await requestAhead(listing, rest, format)) === 'unchanged') return null;
    while (rest.length > 1) {
      const half = rest.slice(0, Math.ceil(rest.length / 2));
      rest = (await requestAhead(listing, half, format)) === 'unchanged' ? rest.slice(half.length) : half;
    }
    const [form] = rest;
    if (form === undefined) return null;
    const found = await verifyFilter(listing, form, TIME_FORMATS);
    if (found !== null) return found;
    // A parameter that is refused in brackets is read in another form: `filter[a][gte]` where `filter` is a text.
    const isRefused = (await requestAhead(listing, [form], format)) === 'refused';
    const nameOf = (each: FilterForm): string => Object.keys(each)[0]?.split('[')[0] ?? '';
    candidates = candidates.filter((each) => each !== form && !(isRefused && nameOf(each) === nameOf(form)));
  }
  return null;
}

/** As a rule, an expression that is not understood is refused: this shows whether a parameter takes expressions at all. */
async function findExpression(listing: ProbedListing): Promise<Filter | null> {
  const byName = Map.groupBy(FILTER_TEXTS, (form) => Object.keys(form).join());
  const firsts = [...byName.values()].flatMap((forms) => forms.slice(0, 1));
  return (await requestAhead(listing, firsts, 'as_sent')) === 'unchanged' ? null : findSingly(listing, FILTER_TEXTS);
}

async function findSingly(listing: ProbedListing, forms: readonly FilterForm[]): Promise<Filter | null> {
  for (const form of forms) {
    const effect = await requestAhead(listing, [form], 'as_sent');
    // If every unknown name is refused, a refusal says nothing about this one.
    const isRead = effect === 'empty' || (effect === 'refused' && listing.conventions.unknown === 'ignored');
    const found = isRead ? await verifyFilter(listing, form, TIME_FORMATS) : null;
    if (found !== null) return found;
  }
  return null;
}

function serviceTime({ first, clock }: ProbedListing): number {
  return first.serverDate ?? clock.now();
}

/** The effect of parameters with a future time: a filter lists nothing, or refuses the form of the time. */
async function requestAhead(
  listing: ProbedListing,
  forms: readonly FilterForm[],
  format: TimeFormat,
): Promise<'empty' | 'refused' | 'unchanged'> {
  const form: FilterForm = Object.assign({}, ...forms);
  const { response, records } = await requestSince(listing, form, serviceTime(listing) + FAR_AHEAD_MS, format);
  if (records === null) return isRefusal(response) ? 'refused' : 'unchanged';
  return records.length === 0 ? 'empty' : 'unchanged';
}

/** Requests the listing since a time, which is written like the records' own times. */
function requestSince(listing: ProbedListing, form: FilterForm, at: number, format: TimeFormat) {
  const { records, updated, firstPage } = listing;
  const times = records.map((record) => fieldAt(record, updated[0] ?? ''));
  const like = times.find((time) => typeof time === 'string' || typeof time === 'number') ?? '';
  const since = formatTime(at, { format }, String(like));
  const params = Object.entries(fillNames(listing, form));
  const query = Object.fromEntries(params.map(([name, text]) => [name, text.replaceAll('{since}', since)]));
  return requestPage(listing, { ...firstPage, ...query });
}

/** Requests nothing, everything and some; null if no format gives the responses that were requested. */
async function verifyFilter(
  listing: ProbedListing,
  form: FilterForm,
  formats: readonly TimeFormat[],
): Promise<Filter | null> {
  const now = serviceTime(listing);
  const { id, updated, isComplete, conventions } = listing;
  const toListed = (records: readonly JsonObject[]): ListedPage => ({
    records: records.map((record) => {
      return { key: recordKeyText(record, id), text: '', at: changeTime(record, updated) ?? -Infinity };
    }),
    total: null,
    isComplete: isComplete === true,
  });
  const unfiltered = toListed(listing.records);
  for (const format of formats) {
    if ((await requestAhead(listing, [form], format)) !== 'empty') continue;
    let last = listing.first;
    const request: RequestSince = async (at) => {
      const { response, records } = await requestSince(listing, form, at, format);
      last = response;
      return records === null ? 'refused' : toListed(records);
    };
    const { is, listed, listsAll } = await tryFilter(request, {
      unfiltered,
      now,
      lookback: LOOKBACK_MS,
      shown: String,
    });
    if (is !== 'works' || listsAll !== true) continue;
    const unknown = conventions.unknown === 'ignored' ? 'changes nothing' : 'is refused, or taken for a filter';
    const evidence = `${describeResponse(last)}, ${listed} of ${unfiltered.records.length} records, none earlier; none since next year, all since 1970; an unknown parameter ${unknown}`;
    return { form, format, evidence };
  }
  return null;
}
