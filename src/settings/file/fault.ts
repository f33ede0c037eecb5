import { visibleText } from '../../model/visible-text.ts';

/** Where a field stands in a YAML value: map keys as text, list positions as numbers. */
export type FieldPath = readonly (string | number)[];

/** One thing that is wrong with a value, before it is known in which file it stands. */
export interface SettingsFinding {
  path: FieldPath;
  /** Whether the fault is about the key at the end of the path or about its value. */
  part: 'key' | 'value';
  /** Said to a person: `expected …, got …`; never holds a secret. */
  message: string;
}

/** A finding in its file; lines and columns count from 1. */
export interface Fault {
  file: string;
  line: number;
  column: number;
  /** `sources.blog.base_url`; empty where the fault is the file itself. */
  field: string;
  message: string;
}

/** `sources.blog.resources[1]`, as a person would say it. */
export function fieldName(path: FieldPath): string {
  return path.map((part, at) => (typeof part === 'number' ? `[${part}]` : at === 0 ? part : `.${part}`)).join('');
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

/** A path as zod tells it. */
export function fieldPath(path: readonly PropertyKey[]): FieldPath {
  return path.map((part) => (typeof part === 'symbol' ? String(part) : part));
}

/** A path as a key of a set or map. */
export function pathKey(path: FieldPath): string {
  return path.join('\u0000');
}
