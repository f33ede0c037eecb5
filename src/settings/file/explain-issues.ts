import type { z } from 'zod';
import type { FieldPath, SettingsFinding } from './fault.ts';
import { fieldPath } from './fault.ts';
import { knownKeys, suggestion } from './did-you-mean.ts';
import { partAt } from './field-path.ts';
import { showValue } from './secret-fields.ts';

type Issue = z.core.$ZodIssue;

/** What an explanation needs besides the issue. */
export interface ExplainContext {
  schema: z.ZodType;
  value: unknown;
  /** Fields whose value is not literally in the file (see `pathKey`). */
  filled: ReadonlySet<string>;
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a map',
  record: 'a map',
  array: 'a list',
};

const COUNTED: Readonly<Record<string, string>> = { string: ' characters', array: ' in the list' };

/** Turns what zod found into findings that say what was expected and what stands there. */
export function explainIssues(
  issues: readonly Issue[],
  about: ExplainContext,
  above: FieldPath = [],
): SettingsFinding[] {
  return issues.flatMap((issue) => {
    const path = [...above, ...fieldPath(issue.path)];
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, about));
    if (issue.code === 'invalid_key') return explainKey(issue, path);
    if (issue.code === 'invalid_union') return explainUnion(issue, path, about);
    return [
      {
        path,
        part: 'value' as const,
        message: `${expectation(issue)}, got ${got(path, about)}${quotingHint(issue, path, about)}`,
      },
    ];
  });
}

function expectation(issue: Issue): string {
  return hasOwnMessage(issue) ? issue.message : `expected ${expected(issue)}`;
}

/** The messages that are given in the schemas begin so. */
function hasOwnMessage(issue: Issue): boolean {
  return issue.message.startsWith('expected ');
}

function expected(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return KINDS[issue.expected] ?? issue.expected;
    case 'invalid_value':
      return oneOf(issue.values.map(String));
    case 'too_small':
      return `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}${COUNTED[issue.origin] ?? ''}`;
    case 'too_big':
      return `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}${COUNTED[issue.origin] ?? ''}`;
    case 'invalid_format':
      return `a text with the pattern ${issue.pattern ?? issue.format}`;
    default:
      return issue.message;
  }
}

/** YAML reads `12` and `true` as what they look like. */
function quotingHint(issue: Issue, path: FieldPath, { value }: ExplainContext): string {
  const kind = typeof valueAt(value, path);
  const isLiteral = kind === 'number' || kind === 'boolean';
  return isLiteral && issue.code === 'invalid_type' && issue.expected === 'string' && !hasOwnMessage(issue)
    ? ' (put it in quotes)'
    : '';
}

function got(path: FieldPath, { value, filled }: ExplainContext): string {
  return showValue(valueAt(value, path), path, filled);
}

function unknownKey(key: string, path: FieldPath, { schema, value }: ExplainContext): SettingsFinding {
  const known = knownKeys(schema, value, path);
  const message = `expected ${oneOf(known)}, got the unknown key ${JSON.stringify(key)}${suggestion(key, known)}`;
  return { path: [...path, key], part: 'key', message };
}

function explainKey(issue: Extract<Issue, { code: 'invalid_key' }>, path: FieldPath): SettingsFinding[] {
  const reasons = issue.issues.map(expectation).join(' and ');
  return [{ path, part: 'key', message: `${reasons} as key, got ${JSON.stringify(path.at(-1))}` }];
}

/** Of the branches of a union, the one that came furthest says what is wrong; if none did, all are named. */
function explainUnion(
  issue: Extract<Issue, { code: 'invalid_union' }>,
  path: FieldPath,
  about: ExplainContext,
): SettingsFinding[] {
  if ('options' in issue && Array.isArray(issue.options)) {
    return [{ path, part: 'value', message: `expected ${oneOf(issue.options.map(String))}, got ${got(path, about)}` }];
  }
  const inside = issue.errors.filter((branch) => branch.every((found) => !isOfWrongKind(found)));
  const [entered] = inside.toSorted((a, b) => a.length - b.length);
  if (entered !== undefined) return explainIssues(entered, about, path);
  const choices = new Set(issue.errors.flat().map((found) => expectation(found).replace(/^expected /, '')));
  return [{ path, part: 'value', message: `expected ${[...choices].join(' or ')}, got ${got(path, about)}` }];
}

/** True where a branch did not even fit the kind of value. */
function isOfWrongKind(issue: Issue): boolean {
  return issue.path.length === 0 && issue.code !== 'unrecognized_keys';
}

function oneOf(words: readonly string[]): string {
  return words.length === 1 ? String(words[0]) : `one of ${words.join(', ')}`;
}

/** What stands at a path, undefined where nothing does. */
export function valueAt(value: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(partAt, value);
}
