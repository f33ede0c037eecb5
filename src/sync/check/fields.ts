import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { keysOfText } from '../../shape/columns/source-path.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import { unwrapped } from '../../shape/records/unwrap.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckFinding } from './finding.ts';

type Described = Pick<ResourceProfile, 'fields' | 'state' | 'unwrap'>;

/** Whether the fields of which the profile says something, and that of the state, are there in the records of a page. */
export function describedFields(
  records: readonly SourceRecord[],
  { fields, state, unwrap }: Described,
): CheckFinding[] {
  if (records.length === 0) return [];
  const values = records.map((record) => sentValue(record, unwrap));
  const missing = Object.entries(fields).filter(([path]) => !values.some((value) => leadsTo(value, keysOfText(path))));
  const named = missing.map(([path, { hash, exclude }]): CheckFinding => {
    const detail = `fields names ${path}, which no record on the page has`;
    const harm = hash || exclude ? '; under another name it is copied as it is' : '';
    return {
      check: 'fields',
      status: 'warn',
      detail,
      hint: `name it as the path that leads to it, such as author.email${harm}`,
    };
  });
  return state === null ? named : [...named, stateFinding(values, state)];
}

/** As columns and masks know it, before anything was hidden. */
function sentValue({ value, asSent }: SourceRecord, unwrap: Described['unwrap']): JsonValue {
  return asSent === undefined ? value : unwrapped(parseJson(asSent.toString()), unwrap);
}

function leadsTo(value: JsonValue, keys: readonly string[]): boolean {
  if (Array.isArray(value)) return value.some((element) => leadsTo(element, keys));
  const [key, ...rest] = keys;
  if (key === undefined) return true;
  return isObject(value) && Object.hasOwn(value, key) && leadsTo(value[key] ?? null, rest);
}

function stateFinding(
  values: readonly JsonValue[],
  { field, published }: NonNullable<Described['state']>,
): CheckFinding {
  const states = values.flatMap((value) => valuesAt(value, keysOfText(field)));
  const hint =
    'set state to the field that holds it, with its values in which a record is published; `state: null` where there is none';
  if (states.length === 0) {
    return { check: 'state', status: 'warn', detail: `no record on the page has the field ${field}`, hint };
  }
  const shown = states.filter((state) => published.some((one) => String(one) === textOf(state))).length;
  const detail = `${shown} of ${values.length} records on the page are published, by ${field}`;
  if (shown > 0) return { check: 'state', status: 'ok', detail };
  const others = [...new Set(states.map((state) => JSON.stringify(state)))].slice(0, 5).join(', ');
  return { check: 'state', status: 'warn', detail: `${detail}, which is ${others}`, hint };
}

function valuesAt(value: JsonValue, keys: readonly string[]): JsonValue[] {
  const [key, ...rest] = keys;
  if (key === undefined) return value === null ? [] : [value];
  return isObject(value) && Object.hasOwn(value, key) ? valuesAt(value[key] ?? null, rest) : [];
}

function textOf(state: JsonValue): string {
  return typeof state === 'string' ? state : JSON.stringify(state);
}
