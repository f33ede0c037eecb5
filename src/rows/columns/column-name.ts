import { RESERVED_NAMES } from '../../model/reserved-names.ts';
import { textHash } from '../records/fingerprint.ts';

/** Where Postgres cuts names off. */
const MAX_BYTES = 63;
const HASH_LENGTH = 8;

/**
 * The column for the field at `sourceKeyPath`: the keys in snake_case, joined by `_`. Letters and digits of any script
 * stay (lower case, NFC), everything else is one `_`; reserved words get a `_` at the end; nothing begins with `_`, so
 * no name clashes with ours (`_version`, `_overflow`, ...).
 *
 * Two paths never get one name: a name that is taken, too long or empty gets a hash of the path, which depends on the
 * path alone. Only which of two colliding paths comes first depends on the order; the catalog keeps it.
 *
 * `given` is the name that the profile gives the field, in place of that of its keys. A field that would be called as one
 * of `keys`, what we call the keys of a child table, is `source_position`.
 */
export function columnName(
  sourceKeyPath: readonly string[],
  taken: ReadonlySet<string>,
  given: string | null = null,
  keys: readonly string[] = [],
): string {
  const name = given ?? snakeCase(sourceKeyPath);
  const free = keys.includes(name) ? `source_${name}` : RESERVED_NAMES.has(name) ? `${name}_` : name;
  return uniqueName(free, 'field', sourceKeyPath, taken);
}

/** The table for the array at `sourceKeyPath` within `parent`'s rows, by the same rules. */
export function tableName(
  parent: string,
  sourceKeyPath: readonly string[],
  taken: ReadonlySet<string>,
  given: string | null = null,
): string {
  const name = snakeCase(sourceKeyPath);
  const whole = given ?? (name === '' ? '' : `${parent}_${name}`);
  return uniqueName(whole, `${parent}_list`, [parent, ...sourceKeyPath], taken);
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

function uniqueName(name: string, unnamed: string, path: readonly string[], taken: ReadonlySet<string>): string {
  if (name !== '' && Buffer.byteLength(name) <= MAX_BYTES && !taken.has(name)) return name;
  const stem = cutToBytes(name === '' ? unnamed : name, MAX_BYTES - HASH_LENGTH - 1).replace(/_$/, '');
  // The second round and later ones are for a field that already bears the hash of another as its own name.
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
