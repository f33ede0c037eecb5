import { isExact } from '../../shape/json/exact-number.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import type { JsonValue } from '../../model/json.ts';

/** Takes the place of what is erased within a text that stays. */
const ERASED = '***';
/** A shorter id is found by chance: it is only taken out where it stands in quotes. */
const LEAST_ID = 4;
/** The same of the values of a record. */
const LEAST_VALUE = 8;
const MOST_VALUES = 5_000;

/** All texts and numbers in stored bodies, those that cannot be parsed left out. */
export function valuesIn(bodies: readonly string[]): Set<string> {
  const found = new Set<string>();
  const collect = (value: JsonValue): void => {
    if (found.size >= MOST_VALUES) return;
    if (typeof value === 'string') found.add(value);
    else if (typeof value === 'number') found.add(String(value));
    else if (isExact(value)) found.add(value.rawJSON);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect);
  };
  for (const body of bodies) {
    try {
      collect(parseJson(body));
    } catch {
      // No JSON: it is erased as a whole, and nothing of it is looked for elsewhere.
    }
  }
  return found;
}

/** Returns what takes ids and values of erased records out of a text that is about something else. */
export function traceEraser(ids: readonly string[], values: ReadonlySet<string>): (text: string) => string {
  const long = [...values].filter((value) => value.length >= LEAST_VALUE);
  const words = [...ids.filter((id) => id.length >= LEAST_ID), ...long].toSorted((a, b) => b.length - a.length);
  const quoted = ids.filter((id) => id.length < LEAST_ID);
  const parts = [
    ...(words.length === 0 ? [] : [`(?<![\\p{L}\\p{N}_])(?:${words.map(forms).join('|')})(?![\\p{L}\\p{N}_])`]),
    ...(quoted.length === 0 ? [] : [`(?<=["'/=])(?:${quoted.map(forms).join('|')})(?=["'?&]|\\\\"|$)`]),
  ];
  if (parts.length === 0) return (text) => text;
  const pattern = new RegExp(parts.join('|'), 'gu');
  return (text) => text.replace(pattern, ERASED);
}

/** As it is, as it stands in a JSON text, and as in an address. */
function forms(text: string): string {
  const inJson = JSON.stringify(text).slice(1, -1);
  const wellFormed = text.toWellFormed();
  return [...new Set([text, inJson, encodeURIComponent(wellFormed)])].map((form) => RegExp.escape(form)).join('|');
}
