import type { JsonObject, JsonValue } from '../model/json.ts';
import { type Answer, isUsable, said } from './asker.ts';
import { objectsIn } from './body.ts';
import { keyOf, type Stage, type Subject } from './stage.ts';
import { fieldAt, isObject } from '../shape/records/field-at.ts';
import { judgeRecord } from '../checks/item.ts';
import { differenceText } from '../shape/records/record-difference.ts';
import { selectRecord } from '../shape/records/select-records.ts';
import { unwrapped, type UnwrapRule } from '../shape/records/unwrap.ts';

/** Candidates for the id that are tried alone. */
const MOST_IDS = 3;

interface Found {
  id: string;
  suffix: string;
  /** Where the record stands in the answer. */
  record: string;
  alone: JsonObject;
  answer: Answer;
}

/** Finds how one record is read alone, by which id, and what is answered for one that is not there. */
export async function probeItem(stage: Stage, subject: Subject, ids: readonly string[]): Promise<void> {
  const { findings, records } = subject;
  const [sample] = records;
  if (sample === undefined || ids.length === 0)
    return findings.guessed(['item'], null, 'there is no record to ask for');
  const found = await findItem(stage, subject, ids.slice(0, MOST_IDS));
  if (found === null) {
    return findings.proved(
      ['item'],
      null,
      `no single record at ${subject.path}/{id}, by ${ids.slice(0, MOST_IDS).join(', ')}`,
    );
  }
  if (found.id !== subject.id) {
    findings.proved(['id'], found.id, `unique, and a record is read alone by it; not by ${subject.id}`);
    subject.id = found.id;
  }
  stage.conventions.item = { suffix: found.suffix, id: found.id, record: found.record };
  const judged = judgeRecord(sample, found.alone);
  if (judged.is === 'other') {
    const why = `${said(found.answer)}, another record than the listed one: ${differenceText(judged.differences)}`;
    return findings.proved(['item'], null, why);
  }
  const further = judged.is === 'more' ? `, and further fields: ${differenceText(judged.differences)}` : '';
  const evidence = `${said(found.answer)}, the listed record with the same fields and values${further}`;
  findings.proved(['item'], baseOf(subject) + found.suffix, evidence);
  if (found.record !== '') findings.proved(['item_record'], found.record, 'the record stands there in that answer');
  await probeMissing(stage, subject, found);
}

async function findItem(stage: Stage, subject: Subject, ids: readonly string[]): Promise<Found | null> {
  const [sample = {}] = subject.records;
  const known = stage.conventions.item;
  const base = baseOf(subject);
  const usual = subject.path.endsWith('/') ? ['/{id}/', '/{id}'] : ['/{id}'];
  const suffixes = known === null ? usual : [known.suffix];
  for (const id of ids) {
    for (const suffix of suffixes) {
      const answer = await askAlone(stage, subject, base + suffix, textOf(fieldAt(sample, id)));
      const record = isUsable(answer) ? placeOf(answer, sample, id, subject.unwrap) : null;
      if (record !== null) return { id, suffix, ...record, answer };
    }
  }
  return null;
}

function baseOf({ path }: Subject): string {
  return path.replace(/\/$/, '');
}

function askAlone(stage: Stage, { query }: Subject, path: string, id: string): Promise<Answer> {
  return stage.asker.ask({ path: path.replace('{id}', encodeURIComponent(id)), query });
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? '');
}

/** The object of an answer that has the sample's id and most of its fields. */
function placeOf(
  answer: Answer,
  sample: JsonObject,
  id: string,
  rules: readonly UnwrapRule[],
): { record: string; alone: JsonObject } | null {
  const json = answer.json ?? null;
  const wanted = Object.keys(sample);
  for (const { path, value: sent } of objectsIn(json)) {
    const value = unwrapped(sent, rules);
    if (!isObject(value)) continue;
    const shared = wanted.filter((key) => Object.hasOwn(value, key)).length;
    if (keyOf(value, id) !== keyOf(sample, id) || shared < wanted.length / 2) continue;
    // Only a place that the program can read.
    const selected = selectRecord(answer.bytes, json, path);
    if (selected !== null) return { record: path, alone: value };
  }
  return null;
}

/** An id of the same form that no record has. */
export function missingId(value: JsonValue | undefined): string {
  if (typeof value !== 'string') return String(Number(value ?? 1) + 987_654_321);
  const tail = value.slice(-6);
  const changed = Array.from(tail, otherMark).join('');
  return changed === tail ? `${value}zz` : value.slice(0, -6) + changed;
}

function otherMark(mark: string): string {
  if (/\d/.test(mark)) return String((Number(mark) + 7) % 10);
  return /[a-f]/.test(mark) ? String.fromCharCode(97 + ((mark.charCodeAt(0) - 97 + 3) % 6)) : mark;
}

const GONE: ReadonlySet<number> = new Set([404, 410]);

async function probeMissing(stage: Stage, subject: Subject, { id, suffix }: Found): Promise<void> {
  const { findings } = subject;
  const known = stage.conventions.gone;
  if (known !== null) {
    if (!GONE.has(known)) findings.proved(['gone', 'status'], [known], 'as in the resource before');
    return;
  }
  const [sample = {}] = subject.records;
  const answer = await askAlone(stage, subject, baseOf(subject) + suffix, missingId(fieldAt(sample, id)));
  if (answer.status >= 400 && answer.status < 500) {
    stage.conventions.gone = answer.status;
    if (!GONE.has(answer.status))
      findings.proved(['gone', 'status'], [answer.status], `an id that nobody has: ${said(answer)}`);
    return;
  }
  const why = `an id that nobody has: ${said(answer)}, which does not say that it is gone`;
  findings.guessed(['item'], null, why);
}
