import { fieldAt } from '../../shape/records/field-at.ts';
import { isRefusal, said, type QueryParams } from '../ask/answer.ts';
import type { FilterForm, Stage, Subject } from '../stage.ts';
import { EXPRESSIONS, filterGroups, NEWEST_FIRST, togetherParams } from './filter-forms.ts';
import { FORMATS, isNewestFirst, middleFault, momentText, tellingMoment, type MomentFormat } from './filter-judge.ts';
import { learnStrictness, pageWith } from './page-size.ts';
import { changeOf } from './times.ts';

/** By then nothing has changed yet; and before the other, nothing had. */
const AHEAD_MS = 366 * 86_400_000;
const BACK_MS = 86_400_000;
/** Forms of one group that are asked alone where they cannot be asked together. */
const MOST_SINGLE = 6;
/** Forms that change the answer and are no filter by time. */
const MOST_DISTURBING = 3;

interface Filter {
  form: FilterForm;
  format: MomentFormat;
  evidence: string;
}

/** Finds how to ask for what changed since a moment; else whether the newest change can be listed first. */
export async function probeFilter(stage: Stage, subject: Subject): Promise<void> {
  const { findings, records, updated } = subject;
  const moment = tellingMoment(subject);
  if (updated.length === 0 || moment === null) {
    if (records.length === 0) return findings.guessed(['incremental'], null, 'the listing is empty');
    return findings.proved(['incremental'], null, 'there is no time of change to ask for: each sync walks everything');
  }
  const filter = await findFilter(stage, subject, moment);
  if (filter !== null) {
    stage.conventions.filter = filter;
    for (const [key, value] of Object.entries(incrementalOf(subject, filter))) {
      findings.proved(['incremental', key], value, filter.evidence);
    }
    return;
  }
  await probeOrder(stage, subject);
}

/** The section of a profile that says so. */
function incrementalOf(subject: Subject, { form, format }: Filter): Record<string, unknown> {
  const params = Object.entries(paramsOf(subject, form));
  const [[name, text] = ['', '']] = params;
  const written = format === 'as_sent' ? {} : { format };
  if (params.length > 1) return { query: Object.fromEntries(params), ...written };
  return { param: name, ...(text === '{since}' ? {} : { template: text }), ...written };
}

function paramsOf({ updated }: Subject, form: FilterForm): QueryParams {
  const [u = '', c = u] = updated;
  return form.params(u, c);
}

async function findFilter(stage: Stage, subject: Subject, moment: number): Promise<Filter | null> {
  const { conventions } = stage;
  if (conventions.filter === 'none') return null;
  if (conventions.filter !== null) {
    const { form, format } = conventions.filter;
    const known = await verify(
      stage,
      subject,
      moment,
      form,
      FORMATS.filter((each) => each === format),
    );
    if (known !== null) return known;
  }
  if (conventions.isStrict === null) await learnStrictness(stage, subject);
  const groups = filterGroups(conventions.parameters, subject.updated.length > 1);
  if (conventions.isStrict !== false) {
    for (const forms of [...groups.map((group) => group.slice(0, MOST_SINGLE)), EXPRESSIONS]) {
      const found = await findAlone(stage, subject, moment, forms);
      if (found !== null) return found;
    }
    return null;
  }
  const found = await findTogether(stage, subject, moment, groups.flat(), 'as_sent');
  if (found !== null) return found;
  const expressed = (await heedsExpressions(stage, subject))
    ? await findAlone(stage, subject, moment, EXPRESSIONS)
    : null;
  if (expressed !== null) return expressed;
  for (const format of FORMATS.slice(1, 3)) {
    const other = await findTogether(stage, subject, moment, groups.flat(), format);
    if (other !== null) return other;
  }
  return null;
}

/** One of several forms, all asked together and halved until one is left; those that only disturb are left out. */
async function findTogether(
  stage: Stage,
  subject: Subject,
  moment: number,
  forms: readonly FilterForm[],
  format: MomentFormat,
): Promise<Filter | null> {
  let rest = forms;
  for (let tries = 0; tries < MOST_DISTURBING; tries += 1) {
    if (!(await reacts(stage, subject, rest, format))) return null;
    let left = rest;
    while (left.length > 1) {
      const half = left.slice(0, Math.ceil(left.length / 2));
      left = (await reacts(stage, subject, half, format)) ? half : left.slice(half.length);
    }
    const [form] = left;
    if (form === undefined) return null;
    const found = await verify(stage, subject, moment, form, FORMATS);
    if (found !== null) return found;
    const { answer } = await askSince(stage, subject, togetherOf(subject, [form]), aheadOf(subject, stage), format);
    // A parameter that is refused in brackets is read in another form: `filter[a][gte]` where `filter` is a text.
    const head = isRefusal(answer) ? headOf(subject, form) : null;
    rest = rest.filter((each) => each !== form && headOf(subject, each) !== head);
  }
  return null;
}

/** The name of its first parameter up to a bracket. */
function headOf(subject: Subject, form: FilterForm): string {
  return Object.keys(paramsOf(subject, form))[0]?.split('[')[0] ?? '';
}

/** True if a parameter for expressions is read at all: one that is not understood is refused as a rule. */
async function heedsExpressions(stage: Stage, subject: Subject): Promise<boolean> {
  const names = EXPRESSIONS.map((form) => Object.keys(paramsOf(subject, form)).join());
  const firsts = EXPRESSIONS.filter((_, at) => names.indexOf(names[at] ?? '') === at);
  return reacts(stage, subject, firsts, 'as_sent');
}

async function findAlone(
  stage: Stage,
  subject: Subject,
  moment: number,
  forms: readonly FilterForm[],
): Promise<Filter | null> {
  for (const form of forms) {
    if (!(await reacts(stage, subject, [form], 'as_sent'))) continue;
    const { answer } = await askSince(stage, subject, togetherOf(subject, [form]), aheadOf(subject, stage), 'as_sent');
    // Where every unknown name is refused, a refusal says nothing about this one.
    const isKnown = !isRefusal(answer) || stage.conventions.isStrict === false;
    const found = isKnown ? await verify(stage, subject, moment, form, FORMATS) : null;
    if (found !== null) return found;
  }
  return null;
}

function togetherOf({ updated }: Subject, forms: readonly FilterForm[]): QueryParams {
  const [u = '', c = u] = updated;
  return togetherParams(forms, u, c);
}

/** True if these parameters change the answer: with a moment ahead nothing is listed, or they are refused. */
async function reacts(
  stage: Stage,
  subject: Subject,
  forms: readonly FilterForm[],
  format: MomentFormat,
): Promise<boolean> {
  const { answer, records } = await askSince(
    stage,
    subject,
    togetherOf(subject, forms),
    aheadOf(subject, stage),
    format,
  );
  return records === null ? isRefusal(answer) : records.length === 0;
}

function aheadOf({ first }: Subject, { clock }: Stage): number {
  return (first.serverDate ?? clock.now()) + AHEAD_MS;
}

function askSince(stage: Stage, subject: Subject, params: QueryParams, at: number, format: MomentFormat) {
  const value = momentText(at, format, likeOf(subject));
  const filled = Object.entries(params).map(([name, text]) => [name, text.replaceAll('{since}', value)]);
  return pageWith(stage, subject, { ...subject.firstPage, ...Object.fromEntries(filled) });
}

function likeOf({ records, updated }: Subject): string {
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
  moment: number,
  form: FilterForm,
  formats: readonly MomentFormat[],
): Promise<Filter | null> {
  const params = paramsOf(subject, form);
  for (const format of formats) {
    const ahead = await askSince(stage, subject, params, aheadOf(subject, stage), format);
    if (ahead.records === null || ahead.records.length > 0) continue;
    const middle = await askSince(stage, subject, params, moment, format);
    const isShorter = (middle.records?.length ?? 0) < subject.records.length || subject.isWhole === true;
    if (middle.records === null || middleFault(subject, moment, middle.records, isShorter) !== null) continue;
    const back = await askSince(stage, subject, params, BACK_MS, format);
    if (back.records === null || back.records.length < subject.records.length) continue;
    const control =
      stage.conventions.isStrict === true ? 'an unknown parameter is refused' : 'an unknown parameter changes nothing';
    const evidence = `${said(middle.answer)}, ${middle.records.length} of ${subject.records.length} records, none earlier; none since next year, all since 1970; ${control}`;
    return { form, format, evidence };
  }
  return null;
}

/** Whether the listing, or an order that can be asked for, puts the newest change first. */
async function probeOrder(stage: Stage, subject: Subject): Promise<void> {
  const { findings, updated, records } = subject;
  const [u = ''] = updated;
  const isTold = stage.conventions.filter === 'none';
  if (!isTold) stage.conventions.filter ??= 'none';
  const tried = isTold
    ? 'no filter was found for the resource before'
    : 'no form of a filter that was tried leaves out what did not change';
  if (isTold && stage.conventions.sort === null) return findings.guessed(['incremental'], null, tried);
  if (isNewestFirst(subject) && records.length > 4) {
    return findings.guessed(
      ['incremental'],
      null,
      `${tried}; the listing comes newest first by itself, which may be chance`,
    );
  }
  const times = new Set(records.map((record) => changeOf(record, updated)));
  if (times.size < 3 || updated.length > 1) return findings.guessed(['incremental'], null, tried);
  const { sort } = stage.conventions;
  for (const order of sort === null ? NEWEST_FIRST : [sort]) {
    const query = order(u);
    const page = await pageWith(stage, subject, { ...subject.firstPage, ...query });
    if (page.records === null || page.records.length < records.length) continue;
    if (!isNewestFirst({ ...subject, records: page.records }) || isNewestFirst(subject)) continue;
    stage.conventions.sort = order;
    const evidence = `${said(page.answer)}, ${page.records.length} records, newest change first; ${tried}`;
    findings.proved(['incremental', 'mode'], 'newest_first', evidence);
    findings.proved(['incremental', 'query'], query, evidence);
    return;
  }
  findings.guessed(['incremental'], null, tried);
}
