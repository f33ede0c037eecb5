import { canonicalDecimal, canonicalJson } from './canonical.ts';

/** What SQLite gives for a cell, integers as bigint. */
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

/** Bytes where a text belongs are told from the text of the same bytes, so that a comparison finds them. */
function textOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? `bytes ${cell.toString('hex')}` : String(cell);
}

function hexOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? cell.toString('hex') : `text ${String(cell)}`;
}

/** SQLite's text leaves them out where there are none. */
function withMilliseconds(text: string): string {
  return /^[^.]{19}$/.test(text) ? `${text}.000` : text;
}
