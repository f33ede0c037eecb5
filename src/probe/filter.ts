import { FAR_AHEAD_MS, judgeFilter, observeFilter, type RequestSince } from '../checks/filter.ts';
import type { ListedPage } from '../checks/listing-walk.ts';
import { writtenMoment } from '../checks/since.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/field-at.ts';
import { isRefusal, said, type QueryParams } from './asker.ts';
import { changeOf } from './fields.ts';
import { learnUnknown, pageWith } from './page-size.ts';
import { keyOf, type Stage, type Subject } from './stage.ts';

/**
 * How a filter takes a moment: query parameters by name, with `{since}` for the moment, `{u}` for the field with the time
 * of change and `{c}` for the one that stands in for it if it is null.
 */
type FilterForm = QueryParams;

const plain = (name: string): FilterForm => ({ [name]: '{since}' });
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
  const groups = [[...new Set([...named, ...PLAIN_NAMES])], FIELD_NAMES, BRACKETS].map((names) => names.map(plain));
  if (isBracketed) groups.unshift(...groups.splice(2, 1));
  return isNullable ? [[...EITHER], ...groups] : groups;
}

/** Ways of writing a moment, in the order in which they are tried. */
const FORMATS = ['as_sent', 'yyyy-MM-dd HH:mm:ss', 'epoch_s', 'epoch_ms'] as const;

type MomentFormat = (typeof FORMATS)[number];

/** Forms of one group that are asked alone if they cannot be asked together. */
const MAX_SINGLE = 6;
/** Forms that change the answer and are no filter by time. */
const MAX_DISTURBING = 3;
/** Before a record's time, as a sync asks. */
const LOOKBACK_MS = 600_000;

interface Filter {
  form: FilterForm;
  format: MomentFormat;
  evidence: string;
}

/** Finds how to ask for what changed since a moment. */
export async function probeFilter(stage: Stage, subject: Subject): Promise<void> {
  const { findings, records, updated } = subject;
  if (updated.length === 0 || records.every((record) => changeOf(record, updated) === null)) {
    if (records.length === 0) return findings.guessed(['incremental'], null, 'the listing is empty');
    return findings.proved(['incremental'], null, 'there is no time of change to ask for: each sync walks everything');
  }
  const filter = await findFilter(stage, subject);
  if (filter === null) return withoutFilter(stage, subject);
  stage.conventions.filter = filter;
  for (const [key, value] of Object.entries(incrementalFields(subject, filter))) {
    findings.proved(['incremental', key], value, filter.evidence);
  }
}

function withoutFilter({ conventions }: Stage, { findings }: Subject): void {
  const isKnown = conventions.filter === 'none';
  conventions.filter ??= 'none';
  const why = isKnown
    ? 'no filter was found for the resource before'
    : 'no form of a filter that was tried leaves out what did not change; if it can be sorted by change, see mode: newest_first';
  findings.guessed(['incremental'], null, why);
}

/** The section of a profile that says so. */
function incrementalFields(subject: Subject, { form, format }: Filter): Record<string, unknown> {
  const params = Object.entries(fill(subject, form));
  const [[name, text] = ['', '']] = params;
  const written = format === 'as_sent' ? {} : { format };
  if (params.length > 1) return { query: Object.fromEntries(params), ...written };
  return { param: name, ...(text === '{since}' ? {} : { template: text }), ...written };
}

/** The form with the names of the resource's fields. */
function fill({ updated: [u = '', c = u] }: Subject, form: FilterForm): QueryParams {
  const named = (text: string): string => text.replaceAll('{u}', u).replaceAll('{c}', c);
  return Object.fromEntries(Object.entries(form).map(([name, text]) => [named(name), named(text)]));
}

async function findFilter(stage: Stage, subject: Subject): Promise<Filter | null> {
  const { conventions } = stage;
  if (conventions.filter === 'none') return null;
  if (conventions.filter !== null) {
    const { form, format } = conventions.filter;
    const known = await verify(
      stage,
      subject,
      form,
      FORMATS.filter((each) => each === format),
    );
    if (known !== null) return known;
  }
  if (conventions.unknown === null) await learnUnknown(stage, subject);
  const groups = filterGroups(conventions.parameters, subject.updated.length > 1);
  if (conventions.unknown !== 'ignored') {
    for (const forms of [...groups.map((group) => group.slice(0, MAX_SINGLE)), EXPRESSIONS]) {
      const found = await findAlone(stage, subject, forms);
      if (found !== null) return found;
    }
    return null;
  }
  const found = await findTogether(stage, subject, groups.flat(), 'as_sent');
  if (found !== null) return found;
  const expressed = (await readsExpressions(stage, subject)) ? await findAlone(stage, subject, EXPRESSIONS) : null;
  if (expressed !== null) return expressed;
  for (const format of FORMATS.slice(1, 3)) {
    const other = await findTogether(stage, subject, groups.flat(), format);
    if (other !== null) return other;
  }
  return null;
}

/** One of several forms, all asked together and halved until one is left; those that only disturb are left out. */
async function findTogether(
  stage: Stage,
  subject: Subject,
  forms: readonly FilterForm[],
  format: MomentFormat,
): Promise<Filter | null> {
  let rest = forms;
  for (let tries = 0; tries < MAX_DISTURBING; tries += 1) {
    if (!(await reacts(stage, subject, rest, format))) return null;
    let left = rest;
    while (left.length > 1) {
      const half = left.slice(0, Math.ceil(left.length / 2));
      left = (await reacts(stage, subject, half, format)) ? half : left.slice(half.length);
    }
    const [form] = left;
    if (form === undefined) return null;
    const found = await verify(stage, subject, form, FORMATS);
    if (found !== null) return found;
    const { answer } = await askAhead(stage, subject, [form], format);
    // A parameter that is refused in brackets is read in another form: `filter[a][gte]` where `filter` is a text.
    const head = isRefusal(answer) ? headOf(form) : null;
    rest = rest.filter((each) => each !== form && headOf(each) !== head);
  }
  return null;
}

/** The name of its first parameter up to a bracket. */
function headOf(form: FilterForm): string {
  return Object.keys(form)[0]?.split('[')[0] ?? '';
}

/** True if a parameter for expressions is read at all: one that is not understood is refused as a rule. */
async function readsExpressions(stage: Stage, subject: Subject): Promise<boolean> {
  const names = EXPRESSIONS.map((form) => Object.keys(form).join());
  const firsts = EXPRESSIONS.filter((_, at) => names.indexOf(names[at] ?? '') === at);
  return reacts(stage, subject, firsts, 'as_sent');
}

async function findAlone(stage: Stage, subject: Subject, forms: readonly FilterForm[]): Promise<Filter | null> {
  for (const form of forms) {
    if (!(await reacts(stage, subject, [form], 'as_sent'))) continue;
    const { answer } = await askAhead(stage, subject, [form], 'as_sent');
    // If every unknown name is refused, a refusal says nothing about this one.
    const isKnown = !isRefusal(answer) || stage.conventions.unknown === 'ignored';
    const found = isKnown ? await verify(stage, subject, form, FORMATS) : null;
    if (found !== null) return found;
  }
  return null;
}

/** True if these parameters change the answer: with a moment to come nothing is listed, or they are refused. */
async function reacts(
  stage: Stage,
  subject: Subject,
  forms: readonly FilterForm[],
  format: MomentFormat,
): Promise<boolean> {
  const { answer, records } = await askAhead(stage, subject, forms, format);
  return records === null ? isRefusal(answer) : records.length === 0;
}

function nowFor({ first }: Subject, { clock }: Stage): number {
  return first.serverDate ?? clock.now();
}

function askAhead(stage: Stage, subject: Subject, forms: readonly FilterForm[], format: MomentFormat) {
  return askSince(stage, subject, Object.assign({}, ...forms), nowFor(subject, stage) + FAR_AHEAD_MS, format);
}

function askSince(stage: Stage, subject: Subject, form: FilterForm, at: number, format: MomentFormat) {
  const value = writtenMoment(at, { format }, likeIn(subject));
  const params = Object.entries(fill(subject, form)).map(([name, text]) => [name, text.replaceAll('{since}', value)]);
  return pageWith(stage, subject, { ...subject.firstPage, ...Object.fromEntries(params) });
}

/** A time of change as the service writes it. */
function likeIn({ records, updated }: Subject): string {
  for (const record of records) {
    const value = fieldAt(record, updated[0] ?? '');
    if (typeof value === 'string' || typeof value === 'number') return String(value);
  }
  return '';
}

/** Asks for nothing, everything and some; null if the answers are not what was asked for, in none of the formats. */
async function verify(
  stage: Stage,
  subject: Subject,
  form: FilterForm,
  formats: readonly MomentFormat[],
): Promise<Filter | null> {
  const now = nowFor(subject, stage);
  const listed = toListed(subject, subject.records, subject.isWhole === true);
  for (const format of formats) {
    const ahead = await askSince(stage, subject, form, now + FAR_AHEAD_MS, format);
    if (ahead.records === null || ahead.records.length > 0) continue;
    let last = ahead.answer;
    const request: RequestSince = async (at) => {
      const { answer, records } = await askSince(stage, subject, form, at, format);
      last = answer;
      return records === null ? 'refused' : toListed(subject, records, subject.isWhole === true);
    };
    const observed = await observeFilter(request, { plain: listed, now, lookback: LOOKBACK_MS });
    const { back, middle } = observed;
    if (back.page === 'refused' || back.page.records.length < listed.records.length) continue;
    if (judgeFilter(observed, String).is !== 'works') continue;
    const some = middle === null || middle.page === 'refused' ? back.page : middle.page;
    const unknown = stage.conventions.unknown === 'ignored' ? 'changes nothing' : 'is refused, or taken for a filter';
    const evidence = `${said(last)}, ${some.records.length} of ${listed.records.length} records, none earlier; none since next year, all since 1970; an unknown parameter ${unknown}`;
    return { form, format, evidence };
  }
  return null;
}

function toListed({ id, updated }: Subject, records: readonly JsonObject[], isWhole: boolean): ListedPage {
  const listed = records.map((record) => {
    return { key: keyOf(record, id), text: '', at: changeOf(record, updated) ?? -Infinity };
  });
  return { records: listed, total: null, isWhole };
}
