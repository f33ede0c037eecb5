import { textHash } from '../../../shape/records/fingerprint.ts';

const HASH_LENGTH = 8;

/** A name that is one for dbt, for file systems and for databases: `a-z`, `0-9` and `_`, not beginning with a digit. */
export function plainName(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '_');
  // What was more than its accents gets a hash of the whole: two names never become one.
  const told = /^[a-z0-9_]+$/.test(text)
    ? plain
    : `${plain.replace(/^_+$/, '')}_${textHash(text).slice(0, HASH_LENGTH)}`;
  return /^[a-z]/.test(told) ? told : `t_${told}`;
}

/** `stg_blog__content_tags`. */
export function stagingName(source: string, table: string): string {
  return `stg_${plainName(source)}__${plainName(table)}`;
}

/** A text of the service where dbt would look for expressions in it, and run them. */
export function withoutJinja(text: string): string {
  return text.replace(/\{(?=[{%#])/g, '{ ').replace(/([}%#])(?=\})/g, '$1 ');
}

/** A column as SQL names it, on every database. */
export function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
