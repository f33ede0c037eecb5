// Names columns and tables after source fields (`author.displayName` becomes `author_display_name`), and converts between the
// three notations of a field's path: its keys, the stored path of a column, and the text that users see.
import { keysOfPath } from '../../model/body-path.ts';
import type { SourcePath } from '../../model/table.ts';
import { RESERVED_NAMES } from '../../model/vocabulary.ts';
import { textHash } from '../records/record-key.ts';

/** Where Postgres cuts names off. */
const MAX_BYTES = 63;
const HASH_LENGTH = 8;

/**
 * The column for the field at `sourceKeyPath`: the keys in snake_case, joined by `_`. Letters and digits of any script
 * stay (lower case, NFC), everything else is one `_`; reserved words get a `_` at the end; nothing begins with `_`, so
 * no name clashes with ours (`_version`, `_overflow`, ...).
 *
 * A name that is taken, too long or empty gets a hash of the path. Which of two colliding paths comes first depends on
 * the order of records; the catalog keeps it.
 *
 * `profileName` replaces the name made of the keys. `keys` are our key columns of a child table: a field of such a name
 * gets the prefix `source_`.
 */
export function columnName(
  sourceKeyPath: readonly string[],
  taken: ReadonlySet<string>,
  profileName: string | null = null,
  keys: readonly string[] = [],
): string {
  const name = profileName ?? snakeCase(sourceKeyPath);
  const free = keys.includes(name) ? `source_${name}` : RESERVED_NAMES.has(name) ? `${name}_` : name;
  return uniqueName(free, 'field', sourceKeyPath, taken);
}

/** The table for the array at `sourceKeyPath` within `parent`'s rows, by the same rules. */
export function tableName(
  parent: string,
  sourceKeyPath: readonly string[],
  taken: ReadonlySet<string>,
  profileName: string | null = null,
): string {
  const name = snakeCase(sourceKeyPath);
  const fullName = profileName ?? (name === '' ? '' : `${parent}_${name}`);
  return uniqueName(fullName, `${parent}_list`, [parent, ...sourceKeyPath], taken);
}

function snakeCase(keys: readonly string[]): string {
  return keys
    .map(snakeKey)
    .filter((word) => word !== '')
    .join('_');
}

/** More marks on one letter than any text has (UAX 15, stream-safe text); ordering them takes quadratic time. */
const MANY_MARKS = /(\p{M}{30})\p{M}+/gu;

function snakeKey(key: string): string {
  return key
    .replace(MANY_MARKS, '$1')
    .normalize('NFC')
    .replace(/(\p{Ll}|\p{Nd})(?=\p{Lu})/gu, '$1_')
    .replace(/(\p{Lu})(?=\p{Lu}(?!s(?!\p{Ll}))\p{Ll})/gu, '$1_')
    .toLowerCase()
    .normalize('NFC')
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, '_')
    .replace(/^_/, '')
    .replace(/_$/, '');
}

/** `unnamed` replaces an empty name. */
function uniqueName(name: string, unnamed: string, path: readonly string[], taken: ReadonlySet<string>): string {
  if (name !== '' && Buffer.byteLength(name) <= MAX_BYTES && !taken.has(name)) return name;
  const stem = cutToBytes(name === '' ? unnamed : name, MAX_BYTES - HASH_LENGTH - 1).replace(/_$/, '');
  // Later rounds are for a field whose own name is the hashed name of another one.
  for (let round = 0; ; round++) {
    const seed = JSON.stringify(round === 0 ? path : [path, round]);
    const hashed = `${stem}_${textHash(seed).slice(0, HASH_LENGTH)}`;
    if (!taken.has(hashed)) return hashed;
  }
}

/** At most `limit` bytes of UTF-8, cut between characters. */
export function cutToBytes(text: string, limit: number): string {
  const space = Buffer.alloc(limit);
  const { read } = new TextEncoder().encodeInto(text, space);
  return text.slice(0, read);
}

/** Means "each element of the array" in a path. */
export const EACH = '[]';
/** Ends the path of the overflow column, for fields of a table with the maximum number of columns. */
export const OVERFLOW = '[overflow]';
/** A source key that looks like one of the two (or like its escaped form) is escaped by a backslash. */
const LOOKS_LIKE_MARK = /^\\*\[(overflow)?\]$/;

/** Escapes a source key as part of a path. */
export function pathPart(key: string): string {
  return LOOKS_LIKE_MARK.test(key) ? `\\${key}` : key;
}

/** The inverse of `pathPart`. */
export function sourceKey(part: string): string {
  return LOOKS_LIKE_MARK.test(part) ? part.slice(1) : part;
}

/** Returns the source keys of a path, without marks. */
export function keysOf(path: SourcePath): string[] {
  return path.filter((part) => part !== EACH).map(sourceKey);
}

/** A field's path in a profile as the path of its column; null for an invalid path. */
export function columnPathOf(field: string): SourcePath | null {
  return keysOfPath(field)?.map(pathPart) ?? null;
}

/** Formats a path for users: dotted, or as a JSON array if a key contains a dot or a quote. */
export function pathText(path: SourcePath): string {
  const keys = keysOf(path);
  return keys.some((key) => key.includes('.') || key.includes('"')) ? JSON.stringify(keys) : keys.join('.');
}

/** The inverse of `pathText`, as keys. */
export function keysOfText(text: string): string[] {
  if (!text.startsWith('["')) return text.split('.');
  const keys: unknown = JSON.parse(text);
  return Array.isArray(keys) ? keys.map(String) : [text];
}
