import type { z } from 'zod';
import { explainIssues, valueAt } from './explain-issues.ts';
import type { FieldPath, SettingsFinding } from './fault.ts';
import { fieldPath, pathKey } from './fault.ts';

/** Either what the schema made of the value, or all that is wrong with it. */
export type Checked<T> = { data: T; findings: null } | { data: null; findings: SettingsFinding[] };

/**
 * Checks a value that was filled in from the environment. A text that came from there is read as a number or as
 * true/false where the schema wants one, because the environment knows only texts.
 */
export function checkValue<T>(schema: z.ZodType<T>, value: unknown, filled: ReadonlySet<string>): Checked<T> {
  const first = schema.safeParse(value);
  if (first.success) return { data: first.data, findings: null };
  const converted = first.error.issues.reduce((at, issue) => convertFilled(at, issue, filled), value);
  const second = converted === value ? first : schema.safeParse(converted);
  if (second.success) return { data: second.data, findings: null };
  const issues = [...second.error.issues, ...issuesBelowBadKeys(schema, converted, second.error.issues)];
  return { data: null, findings: explainIssues(issues, { schema, value: converted, filled }) };
}

/** zod does not look below a key that it refuses; under a name that fits it does, and every fault is to be told. */
function issuesBelowBadKeys(schema: z.ZodType, value: unknown, issues: readonly z.core.$ZodIssue[]) {
  return issues.flatMap((issue) => {
    if (issue.code !== 'invalid_key') return [];
    const path = fieldPath(issue.path);
    const above = path.slice(0, -1);
    const renamed = replaceAt(value, above, { stand_in: valueAt(value, path) });
    const found = schema.safeParse(renamed).error?.issues ?? [];
    const below = found.filter((one) => [...above, 'stand_in'].every((part, at) => one.path[at] === part));
    return below.map((one) => Object.assign(one, { path: [...path, ...one.path.slice(path.length)] }));
  });
}

const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  number: (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text),
  int: (text) => (/^-?\d+$/.test(text) ? Number(text) : text),
  boolean: (text) => (/^(true|false)$/.test(text) ? text === 'true' : text),
};

function convertFilled(value: unknown, issue: z.core.$ZodIssue, filled: ReadonlySet<string>): unknown {
  const path = fieldPath(issue.path);
  const text = valueAt(value, path);
  const read = issue.code === 'invalid_type' ? READERS[issue.expected] : undefined;
  if (typeof text !== 'string' || read === undefined || !filled.has(pathKey(path))) return value;
  const converted = read(text);
  return converted === text ? value : replaceAt(value, path, converted);
}

function replaceAt(value: unknown, [part, ...rest]: FieldPath, by: unknown): unknown {
  if (part === undefined) return by;
  if (Array.isArray(value)) return value.map((entry, at) => (at === part ? replaceAt(entry, rest, by) : entry));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, key === part ? replaceAt(entry, rest, by) : entry]),
  );
}
