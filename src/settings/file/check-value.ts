import type { z } from 'zod';
import { explainIssues } from './explain-issues.ts';
import type { SettingsFinding } from './fault.ts';
import { fieldPath, pathKey, replaceAt, valueAt } from './field-path.ts';

/** Either the schema's output, or all that is wrong with the value. */
export type Checked<T> = { data: T; findings: null } | { data: null; findings: SettingsFinding[] };

/**
 * Checks a value that was filled in from the environment. A text from there is read as a number or as true/false if the
 * schema wants one, because the environment holds only texts.
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

/** zod does not look below a key that it rejects. Under a valid name it does, and every fault is to be reported. */
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
