/**
 * Reads a YAML file of settings or of a profile (`readYamlFile`), so that each message about a field can name its line and
 * column: `config.yaml:7:45  sources.blog.rate.share: expected ...`. At the end are the functions for paths of fields.
 */
import { readFileSync, statSync } from 'node:fs';
import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';

/** What is wrong with a field, before it is located in a file. */
export interface SettingsFinding {
  path: FieldPath;
  /** Whether the key at the end of the path is wrong, or its value. */
  part: 'key' | 'value';
  /** For the user: `expected …, got …`; never contains a secret. */
  message: string;
}

/** A finding in its file; lines and columns count from 1. */
export interface Fault {
  file: string;
  line: number;
  column: number;
  /** `sources.blog.base_url`; empty for a fault of the whole file. */
  field: string;
  message: string;
}

/** Creates the error with all faults, one per line: `file:line:column  field: expected …, got …`. */
export function settingsError(...faulty: readonly { readonly faults: readonly Fault[] }[]): ConfigError {
  return new ConfigError('settings_invalid', renderFaults(faulty.flatMap(({ faults }) => faults)), {
    hint: 'Correct the lines above. Editors find a JSON Schema in config/content-sync.schema.json of the package.',
  });
}

/** Returns one line per fault, in the order of the files and their lines, each fault once. */
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

const MAX_BYTES = 1_048_576;
const MAX_ALIASES = 100;

/** A parsed value, and the function that locates its parts in the file. */
export interface LocatedValue {
  value: unknown;
  /** Adds line and column of the field, or of the nearest part of its path that is in the file. */
  locate(this: void, finding: SettingsFinding): Fault;
}

export interface YamlFile extends LocatedValue {
  /** As shown to the user. */
  file: string;
  /** Absolute. */
  path: string;
  /** Returns how many leading parts of the path are in this file. */
  depthOf(path: FieldPath): number;
}

/** Reads one YAML 1.2 document of at most 1 MiB. `read` is null if that fails; then the faults say why. */
export function readYamlFile(path: string, file: string): { read: YamlFile | null; faults: Fault[] } {
  const text = textOf(path);
  if (typeof text !== 'string') return { read: null, faults: [createFault(file, text.problem)] };
  try {
    return parse(path, file, text);
  } catch (error) {
    // The library throws a RangeError if the nesting is too deep, and a ReferenceError for too many aliases.
    return { read: null, faults: [createFault(file, reasonFor(error))] };
  }
}

function textOf(path: string): string | { problem: string } {
  try {
    if (statSync(path).size > MAX_BYTES) return { problem: 'expected a file of at most 1 MiB' };
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
  } catch (error) {
    if (error instanceof TypeError) return { problem: 'expected UTF-8 text' };
    return { problem: `expected a readable file (${messageOf(error).replace(/^(\w+).*/s, '$1')})` };
  }
}

function parse(path: string, file: string, text: string): { read: YamlFile | null; faults: Fault[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' });
  const broken = [...document.errors, ...document.warnings];
  const syntax = broken.map(({ code, pos }) =>
    createFault(file, SYNTAX_MESSAGES[code] ?? `expected readable YAML (${code})`, lines.linePos(pos[0])),
  );
  const faults = [...syntax, ...nodeFaults(document, lines, file)];
  if (faults.length > 0) return { read: null, faults };
  const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
  const locate = (finding: SettingsFinding): Fault => locateIn(document, lines, file, finding);
  const depthOf = (fieldPath: FieldPath): number => follow(document, fieldPath).passed.length;
  return { read: { file, path, value, locate, depthOf }, faults: [] };
}

/** Finds what is valid in YAML but not in JSON: keys that are no texts, and aliases without a target or of themselves. */
function nodeFaults(document: Document.Parsed, lines: LineCounter, file: string): Fault[] {
  const faults: Fault[] = [];
  const report = (node: unknown, message: string): void => {
    faults.push(createFault(file, message, lines.linePos(nodeOffset(node))));
  };
  visit(document, {
    Pair(_, { key }) {
      if (!isScalar(key) || typeof key.value !== 'string') report(key, 'expected a text as key (quote it)');
      else if (key.value === '__proto__') report(key, 'expected another key than __proto__');
    },
    Alias(_, alias, ancestors) {
      const target = alias.resolve(document);
      if (target === undefined) report(alias, 'expected an alias of an anchor that stands before it');
      else if (ancestors.includes(target)) report(alias, 'expected an alias that does not contain itself');
    },
  });
  return faults;
}

function locateIn(document: Document.Parsed, lines: LineCounter, file: string, finding: SettingsFinding): Fault {
  const { passed, last } = follow(document, finding.path);
  const isValue = passed.length === finding.path.length && finding.part === 'value';
  const position = lines.linePos(nodeOffset(isValue ? last : (passed.at(-1) ?? last)));
  return { ...createFault(file, finding.message, position), field: fieldName(finding.path) };
}

/** Follows the path as far as it exists. `passed` has the node of the key, or of the list entry, of each step. */
function follow(document: Document.Parsed, path: FieldPath): { passed: unknown[]; last: unknown } {
  const passed: unknown[] = [];
  let last: unknown = document.contents;
  for (const part of path) {
    const collection = isAlias(last) ? last.resolve(document) : last;
    const step = isMap(collection) ? pairAt(collection, part) : isSeq(collection) ? entryAt(collection, part) : null;
    if (step === null) break;
    passed.push(step.key);
    last = step.value;
  }
  return { passed, last };
}

function pairAt(map: YAMLMap, part: FieldPath[number]): { key: unknown; value: unknown } | null {
  const pair = map.items.find(({ key }) => isScalar(key) && key.value === part);
  return pair === undefined ? null : { key: pair.key, value: pair.value ?? pair.key };
}

function entryAt(list: YAMLSeq, part: FieldPath[number]): { key: unknown; value: unknown } | null {
  const entry: unknown = list.items[Number(part)];
  return entry === undefined ? null : { key: entry, value: entry };
}

function nodeOffset(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

function createFault(
  file: string,
  message: string,
  position: { line: number; col: number } = { line: 1, col: 1 },
): Fault {
  return { file, line: Math.max(position.line, 1), column: Math.max(position.col, 1), field: '', message };
}

/** Returns the message for an error of the YAML library; rethrows any other. */
function reasonFor(error: unknown): string {
  if (error instanceof ReferenceError) return `expected at most ${MAX_ALIASES} values made from aliases`;
  if (error instanceof RangeError) return 'expected fewer levels of nesting';
  throw error;
}

/** Messages for YAML errors. Those of the library are not used, because some quote the text, which may be a secret. */
const SYNTAX_MESSAGES: Readonly<Partial<Record<ErrorCode, string>>> = {
  BAD_ALIAS: 'expected the name of an anchor after *; quote a text that begins with * or &',
  BAD_DIRECTIVE: 'expected no %directive here; quote a text that begins with %',
  BAD_DQ_ESCAPE: 'expected a known escape after \\ in double quotes; single quotes need none',
  BAD_INDENT: 'expected the same indentation as the lines beside it, or a closing ] or } before this',
  BAD_SCALAR_START: 'expected a text in quotes, because it begins with a reserved character',
  BLOCK_AS_IMPLICIT_KEY: 'expected one "key: value" on a line; quote a text that contains ": "',
  BLOCK_IN_FLOW: 'expected no block inside [ ] or { }',
  DUPLICATE_KEY: 'expected each key once, got the same key again',
  MISSING_CHAR: 'expected a closing quote, bracket or a ":" that is missing',
  MULTILINE_IMPLICIT_KEY: 'expected a key on one line; a ":" may be missing',
  MULTIPLE_DOCS: 'expected one document, got a second one after ---',
  NON_STRING_KEY: 'expected a text as key (quote it)',
  RESOURCE_EXHAUSTION: 'expected fewer levels of nesting',
  TAB_AS_INDENT: 'expected spaces as indentation, got a tab',
  TAG_RESOLVE_FAILED: 'expected no tag such as !name; quote a text that begins with !',
  UNEXPECTED_TOKEN: 'expected the value to end here; quote a text with special characters',
};

/** Path of a field in a YAML value: map keys as text, list positions as numbers. */
export type FieldPath = readonly (string | number)[];

/** Converts a path as zod reports it. */
export function fieldPath(path: readonly PropertyKey[]): FieldPath {
  return path.map((part) => (typeof part === 'symbol' ? String(part) : part));
}

/** Formats a path for a message: `sources.blog.resources[1]`. */
function fieldName(path: FieldPath): string {
  return path.map((part, at) => (typeof part === 'number' ? `[${part}]` : at === 0 ? part : `.${part}`)).join('');
}

/** Converts a path to a key of a set or map. */
export function pathKey(path: FieldPath): string {
  return path.join('\u0000');
}

/** True for a map of YAML or JSON, false for a list. */
export function isPlainMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the entry of a map by key, or of a list by position; undefined if missing. */
export function partAt(value: unknown, part: string | number): unknown {
  if (Array.isArray(value)) return typeof part === 'number' ? value[part] : undefined;
  return isPlainMap(value) && Object.hasOwn(value, part) ? value[part] : undefined;
}

/** Returns the value at a path; undefined if missing. */
export function valueAt(value: unknown, path: FieldPath): unknown {
  return path.reduce<unknown>(partAt, value);
}

/** Returns a copy of the value with the part at the path replaced; an equal copy if the path does not exist. */
export function replaceAt(value: unknown, [part, ...rest]: FieldPath, by: unknown): unknown {
  if (part === undefined) return by;
  if (Array.isArray(value)) return value.map((entry, at) => (at === part ? replaceAt(entry, rest, by) : entry));
  if (!isPlainMap(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, key === part ? replaceAt(entry, rest, by) : entry]),
  );
}

/** Returns a copy of the value with each text replaced. */
export function mapTexts(
  value: unknown,
  replace: (text: string, path: FieldPath) => unknown,
  path: FieldPath = [],
): unknown {
  if (typeof value === 'string') return replace(value, path);
  if (Array.isArray(value)) return value.map((entry, at) => mapTexts(entry, replace, [...path, at]));
  if (!isPlainMap(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [key, mapTexts(entry, replace, [...path, key])]),
  );
}

/** Yields every text in the value with its path, depth first. */
export function* textsIn(value: unknown, path: FieldPath = []): Generator<[path: FieldPath, text: string]> {
  if (typeof value === 'string') yield [path, value];
  else if (Array.isArray(value)) for (const [at, entry] of value.entries()) yield* textsIn(entry, [...path, at]);
  else if (isPlainMap(value)) for (const [key, entry] of Object.entries(value)) yield* textsIn(entry, [...path, key]);
}
