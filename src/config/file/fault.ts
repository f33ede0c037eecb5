import { ConfigError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';

/** One thing that is wrong with a value, before it is located in a file. */
export interface SettingsFinding {
  path: FieldPath;
  /** Whether the key at the end of the path is wrong, or its value. */
  part: 'key' | 'value';
  /** For a person: `expected …, got …`; never holds a secret. */
  message: string;
}

/** A finding in its file; lines and columns count from 1. */
export interface Fault {
  file: string;
  line: number;
  column: number;
  /** `sources.blog.base_url`; empty if the file itself is at fault. */
  field: string;
  message: string;
}

/** All faults in one message, one per line: `file:line:column  field: expected …, got …`. */
export function settingsError(...faulty: readonly { readonly faults: readonly Fault[] }[]): ConfigError {
  return new ConfigError('settings_invalid', renderFaults(faulty.flatMap(({ faults }) => faults)), {
    hint: 'Correct the lines above; `content-sync config schema` prints what an editor needs to help with it.',
  });
}

/** One line per fault, in the order of the files and their lines, each fault once. */
export function renderFaults(faults: readonly Fault[]): string {
  const files = [...new Set(faults.map((fault) => fault.file))];
  const inOrder = faults.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  return [...new Set(inOrder.map(renderFault))].join('\n');
}

function renderFault({ file, line, column, field, message }: Fault): string {
  return visibleText(`${file}:${line}:${column}  ${field === '' ? '' : `${field}: `}${message}`);
}

/** Path of a field in a YAML value: map keys as text, list positions as numbers. */
export type FieldPath = readonly (string | number)[];

/** A path as zod reports it. */
export function fieldPath(path: readonly PropertyKey[]): FieldPath {
  return path.map((part) => (typeof part === 'symbol' ? String(part) : part));
}

/** `sources.blog.resources[1]`: the path as a message shows it. */
export function fieldName(path: FieldPath): string {
  return path.map((part, at) => (typeof part === 'number' ? `[${part}]` : at === 0 ? part : `.${part}`)).join('');
}

/** A path as a key of a set or map. */
export function pathKey(path: FieldPath): string {
  return path.join('\u0000');
}

/** True for a map of YAML or JSON, false for a list. */
export function isPlainMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The entry of a map under a key, or of a list at a position; undefined if there is none. */
export function partAt(value: unknown, part: string | number): unknown {
  if (Array.isArray(value)) return typeof part === 'number' ? value[part] : undefined;
  return isPlainMap(value) && Object.hasOwn(value, part) ? value[part] : undefined;
}

/** The value at a path; undefined if there is none. */
export function valueAt(value: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(partAt, value);
}

/** A copy of the value with the part at the path replaced. A path that leads nowhere changes nothing. */
export function replaceAt(value: unknown, [part, ...rest]: FieldPath, by: unknown): unknown {
  if (part === undefined) return by;
  if (Array.isArray(value)) return value.map((entry, at) => (at === part ? replaceAt(entry, rest, by) : entry));
  if (!isPlainMap(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, key === part ? replaceAt(entry, rest, by) : entry]),
  );
}

/** Every text in the value with its path, depth first. */
export function* textsIn(value: unknown, path: FieldPath = []): Generator<[path: FieldPath, text: string]> {
  if (typeof value === 'string') yield [path, value];
  else if (Array.isArray(value)) for (const [at, entry] of value.entries()) yield* textsIn(entry, [...path, at]);
  else if (isPlainMap(value)) for (const [key, entry] of Object.entries(value)) yield* textsIn(entry, [...path, key]);
}
