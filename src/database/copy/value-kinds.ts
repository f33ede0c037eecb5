import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../rows/json/exact-number.ts';
import { parseJson } from '../../rows/json/parse-json.ts';

/** A cell as SQLite returns it, integers as bigint. */
export type SourceCell = string | number | bigint | Buffer | null;

/** How values of one Postgres type are written, and how those of both databases are compared. */
export interface ValueKind {
  /** How its texts look in SQLite; Postgres would take others too (`yesterday`), and make something else of them. */
  form?: RegExp;
  /** SQLite's value, never null, as Postgres reads it. */
  written(cell: Exclude<SourceCell, null>): string;
  /** One text for equal values, whichever database they were read from; never called with null. */
  canonical(cell: unknown): string;
}

const plain: ValueKind = { written: textOf, canonical: textOf };
const time: ValueKind = {
  form: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/,
  written: textOf,
  canonical: (cell) => withMilliseconds(textOf(cell)),
};

/** By the name that Postgres gives the type. */
export const VALUE_KINDS: Readonly<Record<string, ValueKind>> = {
  boolean: { form: /^[01]$/, written: textOf, canonical: (cell) => TRUTHS[textOf(cell)] ?? textOf(cell) },
  integer: plain,
  bigint: plain,
  'double precision': { written: textOf, canonical: (cell) => String(Number(cell)) },
  numeric: { written: textOf, canonical: (cell) => canonicalDecimal(textOf(cell)) },
  date: { ...plain, form: /^\d{4}-\d\d-\d\d$/ },
  'timestamp without time zone': time,
  'timestamp with time zone': { ...time, written: (cell) => `${textOf(cell)}+00` },
  text: plain,
  jsonb: { written: textOf, canonical: (cell) => canonicalJson(textOf(cell)) },
  bytea: { written: (cell) => `\\x${hexOf(cell)}`, canonical: hexOf },
};

const TRUTHS: Readonly<Record<string, string>> = { 0: 'false', 1: 'true' };

/** Bytes where a text belongs are kept apart from the text of the same bytes, so that a comparison finds them. */
function textOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? `bytes ${cell.toString('hex')}` : String(cell);
}

function hexOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? cell.toString('hex') : `text ${String(cell)}`;
}

/** SQLite's text leaves them out if there are none. */
function withMilliseconds(text: string): string {
  return /^[^.]{19}$/.test(text) ? `${text}.000` : text;
}

const DECIMAL = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/;

/** One spelling for equal numbers: `1.10`, `1.1` and `110E-2` are `11e-1`. Anything else stays as it is. */
export function canonicalDecimal(text: string): string {
  const [match, sign, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  if (match === undefined) return text;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.slice(0, significantEnd(digits));
  if (significant === '') return '0';
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${sign === '-' ? '-' : ''}${significant}e${power}`;
}

/** Backwards: a pattern would try each run of zeros within the number from each of its places. */
function significantEnd(digits: string): number {
  let end = digits.length;
  while (end > 0 && digits[end - 1] === '0') end--;
  return end;
}

/**
 * One spelling for equal JSON: members by name, numbers as above, the last of several members of one name. Text that is
 * no JSON stays as it is.
 */
export function canonicalJson(text: string): string {
  try {
    return JSON.stringify(canonicalValue(parseJson(text)));
  } catch {
    return text;
  }
}

function canonicalValue(value: JsonValue): JsonValue {
  if (typeof value === 'number') return JSON.rawJSON(canonicalDecimal(String(value)));
  if (typeof value !== 'object' || value === null) return value;
  if (isExact(value)) return JSON.rawJSON(canonicalDecimal(value.rawJSON));
  if (Array.isArray(value)) return value.map(canonicalValue);
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, canonicalValue(member)]));
}
