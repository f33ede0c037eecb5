// Paths to values in a JSON body, such as `data[0].id`, as profiles and messages write them (`parseBodyPath`).

/**
 * One step of a path: a key, an index (from the end if negative), each element of an array, or each value of a map.
 */
export type PathStep = string | number | typeof EACH_ELEMENT | typeof EACH_MEMBER;

/** `[*]` in a path. */
export const EACH_ELEMENT = Symbol('each element');
/** `*` in a path. */
export const EACH_MEMBER = Symbol('each member');

/** A path without these characters consists of keys and dots. */
const SPECIAL = /["'*[\]]/;
const QUOTED = String.raw`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`;
const KEY = String.raw`(?<quoted>${QUOTED})|(?<members>\*)(?=$|[.[])|(?<key>[^.["'\]][^.[\]]*)`;
const IN_BRACKETS = String.raw`(?<index>-?\d{1,9})|(?<elements>\*)|(?<name>${QUOTED})`;
const STEP = new RegExp(String.raw`(?:^|\.)(?:${KEY})|\[(?:${IN_BRACKETS})\]`, 'y');

/**
 * Parses a path in a JSON body: keys joined by dots, `[0]` for an element and `[-1]` for the last one, `[*]` for each
 * element, `*` for each value of a map; a key with a dot or a bracket is quoted, `a."b.c"` or `a['b.c']`. The empty path
 * is the value itself. Returns null for any other text.
 */
export function parseBodyPath(text: string): readonly PathStep[] | null {
  if (text === '') return [];
  if (!SPECIAL.test(text)) return text.split('.');
  const steps: PathStep[] = [];
  for (let at = 0; at < text.length; at = STEP.lastIndex) {
    STEP.lastIndex = at;
    const groups = STEP.exec(text)?.groups;
    if (groups === undefined) return null;
    steps.push(toStep(groups));
  }
  return steps;
}

function toStep({ quoted, members, key, index, elements, name }: Readonly<Record<string, string>>): PathStep {
  if (members !== undefined) return EACH_MEMBER;
  if (elements !== undefined) return EACH_ELEMENT;
  if (index !== undefined) return Number(index);
  return key ?? (quoted ?? name ?? '').slice(1, -1).replace(/\\(.)/gs, '$1');
}

const parsed = new Map<string, readonly PathStep[]>();

/** Parses a path, cached; a text that is not a valid path is taken as keys and dots. */
export function stepsOf(path: string): readonly PathStep[] {
  const cached = parsed.get(path);
  if (cached !== undefined) return cached;
  const steps = parseBodyPath(path) ?? path.split('.');
  parsed.set(path, steps);
  return steps;
}

/** True for a step with several values. */
export function isEach(step: PathStep): step is typeof EACH_ELEMENT | typeof EACH_MEMBER {
  return typeof step === 'symbol';
}

/** Returns the keys of a path through objects only; null for any other path. */
export function keysOfPath(path: string): readonly string[] | null {
  const steps = stepsOf(path);
  const keys = steps.filter((step) => typeof step === 'string');
  return keys.length === steps.length ? keys : null;
}

/** Formats a path as `_sync_columns` stores it: dotted, or a JSON array if a key contains a dot or a quote. */
export function fieldPathText(path: string): string {
  const keys = parseBodyPath(path) === null ? null : keysOfPath(path);
  if (keys === null) return path;
  return keys.some((key) => key.includes('.') || key.includes('"')) ? JSON.stringify(keys) : keys.join('.');
}
