import type { JsonObject, JsonValue } from '../../model/json.ts';
import { fieldAt, isObject } from '../../shape/records/field-at.ts';
import { selectRecords } from '../../shape/records/select-records.ts';
import { unwrapped, type UnwrapRule } from '../../shape/records/unwrap.ts';
import { isUsable, type Answer } from '../ask/answer.ts';

/** The records at a path of an answer; null if it holds none of them, or cannot be read. */
export function recordsIn(answer: Answer, path: string, rules: readonly UnwrapRule[] = []): JsonObject[] | null {
  if (!isUsable(answer) || answer.json === undefined) return null;
  const selected = selectRecords(answer.bytes, answer.json, path);
  if (selected === null) return null;
  const values = selected.map(({ value }) => unwrapped(value, rules));
  return values.every(isObject) ? values : null;
}

/** Objects of a body, itself included, with their paths: where a single record may stand. */
export function objectsIn(json: JsonValue): { path: string; value: JsonObject }[] {
  const found: { path: string; value: JsonObject }[] = [];
  const visit = (value: JsonValue, path: string, level: number): void => {
    if (isObject(value)) {
      found.push({ path, value });
      if (level >= 2) return;
      for (const [key, below] of Object.entries(value)) {
        if (!key.includes('.')) visit(below, path === '' ? key : `${path}.${key}`, level + 1);
      }
    } else if (Array.isArray(value) && value.length === 1 && value[0] !== undefined) {
      visit(value[0], `${path}[0]`, level + 1);
    }
  };
  visit(json, '', 0);
  return found;
}

/** Paths of the fields of records, those of objects in them included: `id`, `sys.id`. */
export function fieldPaths(records: readonly JsonObject[], levels = 2): string[] {
  const paths = new Set<string>();
  const visit = (value: JsonObject, above: string, level: number): void => {
    for (const [key, below] of Object.entries(value)) {
      if (key.includes('.')) continue;
      const path = above === '' ? key : `${above}.${key}`;
      paths.add(path);
      if (isObject(below) && level < levels) visit(below, path, level + 1);
    }
  };
  for (const record of records.slice(0, 100)) visit(record, '', 1);
  return [...paths];
}

/** The values of a field, in the order of the records; undefined where it is missing. */
export function valuesAt(records: readonly JsonObject[], path: string): (JsonValue | undefined)[] {
  return records.map((record) => fieldAt(record, path));
}
