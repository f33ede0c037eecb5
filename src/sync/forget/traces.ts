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
/** A longer value is never quoted whole. */
const MOST_QUOTED = 80;

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
  const long = [...values].filter((value) => value.length >= LEAST_VALUE).map((value) => value.slice(0, MOST_QUOTED));
  const words = [...ids.filter((id) => id.length >= LEAST_ID), ...long].toSorted((a, b) => b.length - a.length);
  const forms = new Set(words.flatMap(formsOf));
  const quoted = new Set(ids.filter((id) => id !== '' && id.length < LEAST_ID).flatMap(formsOf));
  return (text) => {
    let left = text;
    for (const form of forms) left = without(left, form, isWhole);
    for (const form of quoted) left = without(left, form, isQuoted);
    return left;
  };
}

type Surrounded = (before: string, after: string) => boolean;

/** Not a part of a longer word. */
const isWhole: Surrounded = (before, after) => !/[\p{L}\p{N}_]$/u.test(before) && !/^[\p{L}\p{N}_]/u.test(after);
/** In quotes, or a part of an address. */
const isQuoted: Surrounded = (before, after) => /["'/=]$/.test(before) && /^(["'?&\\]|$)/.test(after);

function without(text: string, form: string, isMeant: Surrounded): string {
  let left = text;
  for (let at = left.indexOf(form); at !== -1; at = left.indexOf(form, at)) {
    const end = at + form.length;
    const isFound = isMeant(left.slice(Math.max(0, at - 2), at), left.slice(end, end + 2));
    if (isFound) left = `${left.slice(0, at)}${ERASED}${left.slice(end)}`;
    at += isFound ? ERASED.length : 1;
  }
  return left;
}

/** As it is, as it stands in a JSON text, and as in an address. */
function formsOf(text: string): string[] {
  const wellFormed = text.toWellFormed();
  return [...new Set([text, JSON.stringify(text).slice(1, -1), encodeURIComponent(wellFormed)])];
}
