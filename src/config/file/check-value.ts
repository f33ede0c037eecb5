/**
 * Checks settings or a profile by a zod schema (`checkValue`). Zod's own messages are replaced by one form, in which a user
 * sees what to write: `expected a whole number, got "ten"`. Values that may be secrets are not shown.
 */
import { z } from 'zod';
import { shownAddress } from '../warehouse-address.ts';
import { isSecretField, isWarehouseAddress } from './secret-fields.ts';
import {
  fieldPath,
  type FieldPath,
  isPlainMap,
  partAt,
  pathKey,
  replaceAt,
  type SettingsFinding,
  valueAt,
} from './yaml-file.ts';

/** Either the output of the schema, or all faults of the value. */
export type CheckedValue<T> = { data: T; findings: null } | { data: null; findings: SettingsFinding[] };

/**
 * Checks a value by a schema. Texts at the paths `filled`, which come from the environment, are converted to a number or
 * boolean if the schema expects one.
 */
export function checkValue<T>(schema: z.ZodType<T>, value: unknown, filled: ReadonlySet<string>): CheckedValue<T> {
  const first = schema.safeParse(value);
  if (first.success) return { data: first.data, findings: null };
  const converted = first.error.issues.reduce((at, issue) => convertFilled(at, issue, filled), value);
  const second = converted === value ? first : schema.safeParse(converted);
  if (second.success) return { data: second.data, findings: null };
  return { data: null, findings: explainIssues(second.error.issues, { schema, value: converted, filled }) };
}

/** Converts the text of an environment variable by the kind that the schema expects; returns any other text unchanged. */
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

type Issue = z.core.$ZodIssue;
export type JsonSchema = z.core.JSONSchema.JSONSchema;

/** Context of an explanation besides the issue. */
interface ExplainContext {
  schema: z.ZodType;
  value: unknown;
  /** Fields whose value is not literally in the file (see `pathKey`). */
  filled: ReadonlySet<string>;
}

const EXPECTED_KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a map',
  record: 'a map',
  array: 'a list',
};

const COUNTED: Readonly<Record<string, string>> = { string: ' characters', array: ' in the list' };

/** Converts zod's issues to findings. */
function explainIssues(issues: readonly Issue[], context: ExplainContext, above: FieldPath = []): SettingsFinding[] {
  return issues.flatMap((issue) => {
    const path = [...above, ...fieldPath(issue.path)];
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, context));
    if (issue.code === 'invalid_key') return explainKey(issue, path);
    if (issue.code === 'invalid_union' && !hasOwnMessage(issue)) return explainUnion(issue, path, context);
    const message = `${expectation(issue)}, got ${describeGiven(path, context)}${quotingHint(issue, path, context)}`;
    return [{ path, part: 'value' as const, message }];
  });
}

function expectation(issue: Issue): string {
  return hasOwnMessage(issue) ? issue.message : `expected ${expected(issue)}`;
}

/** True for a message that the schema itself gives, such as `expected an e-mail address`. */
function hasOwnMessage(issue: Issue): boolean {
  return issue.message.startsWith('expected ');
}

function expected(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return EXPECTED_KINDS[issue.expected] ?? issue.expected;
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

/** YAML reads `12` and `true` as a number and a boolean. */
function quotingHint(issue: Issue, path: FieldPath, { value }: ExplainContext): string {
  const kind = typeof valueAt(value, path);
  const isLiteral = kind === 'number' || kind === 'boolean';
  return isLiteral && issue.code === 'invalid_type' && issue.expected === 'string' && !hasOwnMessage(issue)
    ? ' (put it in quotes)'
    : '';
}

function unknownKey(key: string, path: FieldPath, { schema, value }: ExplainContext): SettingsFinding {
  const known = knownKeys(schema, value, path);
  const message = `expected ${oneOf(known)}, got the unknown key ${JSON.stringify(key)}`;
  return { path: [...path, key], part: 'key', message };
}

function explainKey(issue: Extract<Issue, { code: 'invalid_key' }>, path: FieldPath): SettingsFinding[] {
  const reasons = issue.issues.map(expectation).join(' and ');
  return [{ path, part: 'key', message: `${reasons} as key, got ${JSON.stringify(path.at(-1))}` }];
}

/**
 * Explains a value that fits no branch of a union. If it is a map as some branches expect, the faults in the branch with
 * the fewest are shown; else all branches are listed.
 */
function explainUnion(
  issue: Extract<Issue, { code: 'invalid_union' }>,
  path: FieldPath,
  context: ExplainContext,
): SettingsFinding[] {
  if ('options' in issue && Array.isArray(issue.options)) {
    // An optional field has the option undefined.
    const options = oneOf(issue.options.filter((option) => option !== undefined).map(String));
    return [{ path, part: 'value', message: `expected ${options}, got ${describeGiven(path, context)}` }];
  }
  const ofSameKind = issue.errors.filter((branch) => !branch.some(isOfWrongKind));
  const [closest] = ofSameKind.toSorted((a, b) => a.length - b.length);
  if (closest !== undefined) return explainIssues(closest, context, path);
  const choices = new Set(issue.errors.flat().map((found) => expectation(found).replace(/^expected /, '')));
  return [
    { path, part: 'value', message: `expected ${[...choices].join(' or ')}, got ${describeGiven(path, context)}` },
  ];
}

/** True if the branch expects another kind of value. */
function isOfWrongKind(issue: Issue): boolean {
  return issue.path.length === 0 && issue.code !== 'unrecognized_keys';
}

function oneOf(words: readonly string[]): string {
  return words.length === 1 ? String(words[0]) : `one of ${words.join(', ')}`;
}

const MAX_SHOWN = 60;
const SECRET_KINDS: Readonly<Record<string, string>> = { string: 'text', number: 'number', boolean: 'true or false' };

/** Describes the value of a field: its kind if it is a map or list, `***` if it may be a secret. */
function describeGiven(path: FieldPath, { value: whole, filled }: ExplainContext): string {
  const value = valueAt(whole, path);
  if (value === undefined) return 'nothing';
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (isSecretField(path) || filled.has(pathKey(path))) return `a ${SECRET_KINDS[typeof value] ?? 'value'} (***)`;
  if (typeof value !== 'string') return JSON.stringify(value);
  const text = JSON.stringify(isWarehouseAddress(path) ? shownAddress(value) : withoutCredentials(value));
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

/** Masks user name, password and query of a URL. */
function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^/?#]*@/g, '//***@').replace(/[?#].*$/s, '?***');
}

/** Returns the known keys of the map at `path`; of a union, those of the branch that the value selects. */
function knownKeys(schema: z.ZodType, value: unknown, path: FieldPath): string[] {
  let at: unknown = value;
  let branches: JsonSchema[] = selectBranches(z.toJSONSchema(schema, { io: 'input' }), at);
  for (const part of path) {
    at = partAt(at, part);
    branches = branches.flatMap((branch) => schemaBelow(branch, part)).flatMap((branch) => selectBranches(branch, at));
  }
  return [...new Set(branches.flatMap((branch) => Object.keys(branch.properties ?? {})))];
}

function schemaBelow(schema: JsonSchema, part: FieldPath[number]): JsonSchema[] {
  const next = schema.properties?.[part] ?? (typeof part === 'number' ? schema.items : schema.additionalProperties);
  return typeof next === 'object' && !Array.isArray(next) ? [next] : [];
}

function selectBranches(schema: JsonSchema, value: unknown): JsonSchema[] {
  const branches = (schema.oneOf ?? schema.anyOf)?.filter((branch): branch is JsonSchema => typeof branch === 'object');
  if (branches === undefined) return [schema];
  const chosen = branches.filter((branch) => matchesConstants(branch, value));
  return (chosen.length > 0 ? chosen : branches).flatMap((branch) => selectBranches(branch, value));
}

/** True if the value has the constants (`type: api_key`) of this branch. */
function matchesConstants(branch: JsonSchema, value: unknown): boolean {
  const constants = Object.entries(branch.properties ?? {}).flatMap(([key, property]) =>
    typeof property === 'object' && property.const !== undefined ? [[key, property.const] as const] : [],
  );
  return isPlainMap(value) && constants.every(([key, constant]) => value[key] === constant);
}
