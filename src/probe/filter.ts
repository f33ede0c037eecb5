import { FAR_AHEAD_MS, type RequestSince, tryFilter } from '../checks/filter.ts';
import type { ListedPage } from '../checks/listing-scan.ts';
import { writtenMoment } from '../checks/since.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { isRefusal, type QueryParams, said } from './asker.ts';
import { changeOf } from './fields.ts';
import { learnUnknown, requestPage } from './page-size.ts';
import { keyOf, type Subject } from './profile.ts';

/**
 * How a filter takes a time: query parameters by name, with `{since}` for the time, `{u}` for the field with the time of
 * change and `{c}` for the field that replaces it if it is null.
 */
type FilterForm = QueryParams;

const split = (names: string): string[] => names.trim().split(/\s+/);

/** Parameters of their own, in the order in which they are tried. */
const PLAIN_NAMES = split(`
  updated_since modified_after updated_after since modified_since updatedSince updatedAfter modifiedSince modifiedAfter
  changed_since changed_after updated_from last_modified_after last_updated_after start_date from start_time after_time`);

/** A field and an operator, in one name. */
const FIELD_NAMES = split('{u}_gte {u}__gte {u}_since {u}_after {u}_min {u}_from min_{u} {u}_gt {u}.gte');

const BRACKETS = split(`
  filters[{u}][$gte] filter[{u}][_gte] {u}[gte] where[{u}][greater_than_equal] filter[{u}][gte] filter[{u}][$gte]
  filters[{u}][gte] where[{u}][$gte] {u}[$gte] {u}[after] filter[updated_since] filter[modified_since] filter[since]`);

/** Expressions in one parameter: each is tried alone. */
const EXPRESSIONS: readonly FilterForm[] = [
  { filter: "{u}:>='{since}'" },
  { filter: '{u} ge {since}' },
  { filter: "{u}>='{since}'" },
  { filter: '{u}>={since}' },
  { $filter: '{u} ge {since}' },
  { filter: '{"{u}":{"_gte":"{since}"}}' },
  { filter: '{"{u}":{"$gte":"{since}"}}' },
  { where: '{"{u}":{"$gte":"{since}"}}' },
  { q: '{u}:>={since}' },
  { q: '{u}>={since}' },
];

/** The same where the time of change is null until the first change: either field, or both at once. */
const EITHER: readonly FilterForm[] = [
  { 'filter[_or][0][{u}][_gte]': '{since}', 'filter[_or][1][{c}][_gte]': '{since}' },
  { 'filters[$or][0][{u}][$gte]': '{since}', 'filters[$or][1][{c}][$gte]': '{since}' },
  { 'where[or][0][{u}][greater_than_equal]': '{since}', 'where[or][1][{c}][greater_than_equal]': '{since}' },
];

/** All groups, in the order in which they are tried; `hints` are names that the service or its documents use. */
function filterGroups(hints: ReadonlySet<string>, isNullable: boolean): FilterForm[][] {
  const named = [...hints].filter(
    (name) =>
      /(?:since|after|from|gte|min)$|updated|modified|changed/i.test(name) &&
      !/\[|before|sort|order|until|_lte?$/i.test(name),
  );
  const isBracketed = [...hints].some((name) => name.includes('['));
  const groups = [[...new Set([...named, ...PLAIN_NAMES])], FIELD_NAMES, BRACKETS].map((names) =>
    names.map((name): FilterForm => ({ [name]: '{since}' })),
  );
  if (isBracketed) groups.unshift(...groups.splice(2, 1));
  return isNullable ? [[...EITHER], ...groups] : groups;
}

/** Ways of writing a time, in the order in which they are tried. */
const FORMATS = ['as_sent', 'yyyy-MM-dd HH:mm:ss', 'epoch_s', 'epoch_ms'] as const;

type TimeFormat = (typeof FORMATS)[number];

/** Forms of one group that are tried one by one if they cannot be requested together. */
const MAX_SINGLE = 6;
/** Forms that change the response and are no filter by time. */
const MAX_DISTURBING = 3;
/** Before a record's time, as a sync requests. */
const LOOKBACK_MS = 600_000;

interface Filter {
  form: FilterForm;
  format: TimeFormat;
  evidence: string;
}

/** Finds how to request what changed since a time. */
export async function probeFilter(subject: Subject): Promise<void> {
  const { findings, records, updated, conventions } = subject;
  if (updated.length === 0 || records.every((record) => changeOf(record, updated) === null)) {
    if (records.length === 0) return findings.guessed(['incremental'], null, 'the listing is empty');
    return findings.proved(['incremental'], null, 'there is no time of change to ask for: each sync scans everything');
  }
  const filter = await findFilter(subject);
  if (filter === null) {
    const why =
      conventions.filter === 'none'
        ? 'no filter was found for the resource before'
        : 'no form of a filter that was tried leaves out what did not change; if it can be sorted by change, see mode: newest_first';
    conventions.filter ??= 'none';
    return findings.guessed(['incremental'], null, why);
  }
  conventions.filter = filter;
  const { form, format, evidence } = filter;
  const params = Object.entries(fill(subject, form));
  const [[param, template] = ['', '']] = params;
  const one = { param, ...(template === '{since}' ? {} : { template }) };
  const fields = {
    ...(params.length > 1 ? { query: Object.fromEntries(params) } : one),
    ...(format === 'as_sent' ? {} : { format }),
  };
  for (const [key, value] of Object.entries(fields)) findings.proved(['incremental', key], value, evidence);
}

/** The form with the names of the resource's fields. */
function fill({ updated: [u = '', c = u] }: Subject, form: FilterForm): QueryParams {
  const named = (text: string): string => text.replaceAll('{u}', u).replaceAll('{c}', c);
  return Object.fromEntries(Object.entries(form).map(([name, text]) => [named(name), named(text)]));
}

async function findFilter(subject: Subject): Promise<Filter | null> {
  const { conventions, updated } = subject;
  if (conventions.filter === 'none') return null;
  if (conventions.filter !== null) {
    const { form, format } = conventions.filter;
    const formats = FORMATS.filter((each) => each === format);
    const known = await verify(subject, form, formats);
    if (known !== null) return known;
  }
  if (conventions.unknown === null) await learnUnknown(subject);
  const groups = filterGroups(conventions.parameters, updated.length > 1);
  if (conventions.unknown !== 'ignored') {
    for (const forms of [...groups.map((group) => group.slice(0, MAX_SINGLE)), EXPRESSIONS]) {
      const found = await findSingly(subject, forms);
      if (found !== null) return found;
    }
    return null;
  }
  const found = await findTogether(subject, groups.flat(), 'as_sent');
  if (found !== null) return found;
  // An expression that is not understood is refused as a rule: this shows whether such a parameter is read at all.
  const names = EXPRESSIONS.map((form) => Object.keys(form).join());
  const firsts = EXPRESSIONS.filter((_, at) => names.indexOf(names[at] ?? '') === at);
  const expressed = (await reacts(subject, firsts, 'as_sent')) ? await findSingly(subject, EXPRESSIONS) : null;
  if (expressed !== null) return expressed;
  for (const format of FORMATS.slice(1, 3)) {
    const other = await findTogether(subject, groups.flat(), format);
    if (other !== null) return other;
  }
  return null;
}

/** One of several forms, requested together and halved until one is left; those that only disturb are left out. */
async function findTogether(
  subject: Subject,
  forms: readonly FilterForm[],
  format: TimeFormat,
): Promise<Filter | null> {
  let rest = forms;
  for (let tries = 0; tries < MAX_DISTURBING; tries += 1) {
    if (!(await reacts(subject, rest, format))) return null;
    let left = rest;
    while (left.length > 1) {
      const half = left.slice(0, Math.ceil(left.length / 2));
      left = (await reacts(subject, half, format)) ? half : left.slice(half.length);
    }
    const [form] = left;
    if (form === undefined) return null;
    const found = await verify(subject, form, FORMATS);
    if (found !== null) return found;
    const { answer } = await requestAhead(subject, [form], format);
    // A parameter that is refused in brackets is read in another form: `filter[a][gte]` where `filter` is a text.
    const nameOf = (each: FilterForm): string => Object.keys(each)[0]?.split('[')[0] ?? '';
    const refused = isRefusal(answer) ? nameOf(form) : null;
    rest = rest.filter((each) => each !== form && nameOf(each) !== refused);
  }
  return null;
}

async function findSingly(subject: Subject, forms: readonly FilterForm[]): Promise<Filter | null> {
  for (const form of forms) {
    if (!(await reacts(subject, [form], 'as_sent'))) continue;
    const { answer } = await requestAhead(subject, [form], 'as_sent');
    // If every unknown name is refused, a refusal says nothing about this one.
    const isKnown = !isRefusal(answer) || subject.conventions.unknown === 'ignored';
    const found = isKnown ? await verify(subject, form, FORMATS) : null;
    if (found !== null) return found;
  }
  return null;
}

/** True if these parameters change the response: with a future time nothing is listed, or they are refused. */
async function reacts(subject: Subject, forms: readonly FilterForm[], format: TimeFormat): Promise<boolean> {
  const { answer, records } = await requestAhead(subject, forms, format);
  return records === null ? isRefusal(answer) : records.length === 0;
}

function nowFor({ first, clock }: Subject): number {
  return first.serverDate ?? clock.now();
}

function requestAhead(subject: Subject, forms: readonly FilterForm[], format: TimeFormat) {
  return requestSince(subject, Object.assign({}, ...forms), nowFor(subject) + FAR_AHEAD_MS, format);
}

/** Requests the listing since a time, which is written like the records' own times. */
function requestSince(subject: Subject, form: FilterForm, at: number, format: TimeFormat) {
  const { records, updated, firstPage } = subject;
  const times = records.map((record) => fieldAt(record, updated[0] ?? ''));
  const like = times.find((time) => typeof time === 'string' || typeof time === 'number') ?? '';
  const value = writtenMoment(at, { format }, String(like));
  const params = Object.entries(fill(subject, form)).map(([name, text]) => [name, text.replaceAll('{since}', value)]);
  return requestPage(subject, { ...firstPage, ...Object.fromEntries(params) });
}

/** Requests nothing, everything and some; null if no format gives the responses that were requested. */
async function verify(subject: Subject, form: FilterForm, formats: readonly TimeFormat[]): Promise<Filter | null> {
  const now = nowFor(subject);
  const { id, updated, isWhole, conventions } = subject;
  const toListed = (records: readonly JsonObject[]): ListedPage => ({
    records: records.map((record) => ({
      key: keyOf(record, id),
      text: '',
      at: changeOf(record, updated) ?? -Infinity,
    })),
    total: null,
    isWhole: isWhole === true,
  });
  const plain = toListed(subject.records);
  for (const format of formats) {
    const ahead = await requestSince(subject, form, now + FAR_AHEAD_MS, format);
    if (ahead.records === null || ahead.records.length > 0) continue;
    let last = ahead.answer;
    const request: RequestSince = async (at) => {
      const { answer, records } = await requestSince(subject, form, at, format);
      last = answer;
      return records === null ? 'refused' : toListed(records);
    };
    const { is, listed, listsAll } = await tryFilter(request, { plain, now, lookback: LOOKBACK_MS, shown: String });
    if (is !== 'works' || listsAll !== true) continue;
    const unknown = conventions.unknown === 'ignored' ? 'changes nothing' : 'is refused, or taken for a filter';
    const evidence = `${said(last)}, ${listed} of ${plain.records.length} records, none earlier; none since next year, all since 1970; an unknown parameter ${unknown}`;
    return { form, format, evidence };
  }
  return null;
}
