import type { Cell, Column, TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { keysOf, pathText } from '../shape/columns/source-path.ts';
import { columnsToLookAt, saveTexts } from '../state/column-catalog.ts';
import { countGrowth } from '../state/view-catalog.ts';
import { refreshViews } from './evolve-tables.ts';
import type { LoadContext } from './load-context.ts';

/** Rows of a table that are looked at. */
const ROWS = 300;

/**
 * Adds to what is said of each column a value that belongs to nobody, where there is one. Values are looked at once,
 * behind the first walk that brings a column.
 */
export async function tendExamples(context: LoadContext): Promise<void> {
  const { warehouse, owned } = context;
  const { shape, resource } = owned;
  if (shape === null) return;
  const unseen = await columnsToLookAt(warehouse.own, resource);
  if (unseen.size === 0) return;
  const found = await Promise.all(
    shape.tables.map(async (table) => {
      const columns = table.columns.filter(({ name }) => unseen.get(table.name)?.has(name));
      const examples = await examplesOf(context, table, columns);
      return columns.map(({ name }) => ({ table: table.name, column: name, text: examples.get(name) ?? '' }));
    }),
  );
  const statements = saveTexts(warehouse.own, 'example', found.flat());
  await warehouse.apply([...statements, countGrowth(warehouse.own)], owned.lease());
  await refreshViews(context);
}

/** By column; those without one that may be shown are left out. References tell records apart, as keys do. */
async function examplesOf(
  { warehouse, whole: { relations }, profile: { fields } }: LoadContext,
  table: TableShape,
  columns: readonly Column[],
): Promise<Map<string, string>> {
  const isHashed = ({ path }: Column): boolean => {
    const field = pathText(path);
    return Object.hasOwn(fields, field) && fields[field]?.hash === true;
  };
  const shown = columns.filter(
    (column) =>
      mayBeShown(table.name, column) && !isHashed(column) && !Object.hasOwn(relations, `${table.name}.${column.name}`),
  );
  if (shown.length === 0) return new Map();
  const rows = await warehouse.sample(table, shown, ROWS);
  const examples = shown.map(({ name, type }) => {
    const values = rows.map((row) => row[name] ?? null);
    return [name, exampleOf(type, values)] as const;
  });
  return new Map(examples.flatMap(([name, example]) => (example === null ? [] : [[name, example] as const])));
}

/** From fewer values nobody can tell what is usual. */
const LEAST_VALUES = 20;
/** A text that is one of so few, and this part of all, is a word of the service and not of a person. */
const MOST_WORDS = 12;
const LEAST_PART = 0.05;
const MOST_LETTERS = 24;
/** More digits may be an account or a telephone. */
const MOST_DIGITS = 8;

/** `draft`, `open_source`, `image/png`, `PAGE`: nobody is written like that. */
const WORD = /^(?:[a-z]+(?:[_-][a-z]+)*(?:\/[a-z0-9][a-z0-9.+-]*)?|[A-Z]{2,}(?:_[A-Z]+)*)$/;

/** Words in names of tables and columns that may hold what belongs to a person, or what only tells records apart. */
const PERSONAL = new Set(
  `account address age assignee author birth birthdate birthday by card checksum city client code contact contributor
  coordinate creator customer dob editor email employee employer ethnicity family fax file first full gender geo guid
  handle hash health iban id income ip key last lat latitude location login lng lon longitude mail md5 member mobile
  name nationality nick nickname no number owner passport password patient path payment people person phone pin
  postal postcode profile race ref religion reviewer salary secret sex sha sha256 signature slug ssn staff street
  subscriber tax tel telephone title token uri url user username uuid vote wage writer zip`.split(/\s+/),
);

const MIDDLE = 2;

const PICKS: Partial<Record<ColumnType, (values: readonly Cell[]) => string | null>> = {
  integer: middleNumber,
  double: middleNumber,
  boolean: (values) => (values.some((value) => value === 1 || value === true) ? 'true' : 'false'),
  date: (values) => String(values[Math.floor(values.length / MIDDLE)]).slice(0, 'YYYY-MM-DD'.length),
  timestamp: (values) => String(values[Math.floor(values.length / MIDDLE)]).slice(0, 'YYYY-MM-DD HH:MM:SS'.length),
  text: usualWord,
};

/** True if values of the column may be looked at: neither its name nor that of its table hints at a person or a key. */
export function mayBeShown(table: string, { name, path, type }: Column): boolean {
  if (PICKS[type] === undefined) return false;
  const words = [table, name, ...keysOf(path)].flatMap((text) =>
    text
      .replaceAll(/(\p{Ll})(?=\p{Lu})/gu, '$1_')
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u),
  );
  return words.every((word) => !PERSONAL.has(word) && !PERSONAL.has(word.replace(/s$/, '')));
}

/** One of the values that says what they are like and belongs to nobody; null if there is none. */
export function exampleOf(type: ColumnType, values: readonly Cell[]): string | null {
  const there = values.filter((value) => value !== null);
  return there.length < LEAST_VALUES ? null : (PICKS[type]?.(there) ?? null);
}

function middleNumber(values: readonly Cell[]): string | null {
  const sorted = values.map(Number).toSorted((a, b) => a - b);
  const text = String(sorted[Math.floor(sorted.length / MIDDLE)]);
  return /^-?\d+(\.\d+)?$/.test(text) && text.replaceAll(/\D/g, '').length <= MOST_DIGITS ? text : null;
}

function usualWord(values: readonly Cell[]): string | null {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(String(value), (counts.get(String(value)) ?? 0) + 1);
  if (counts.size > MOST_WORDS || [...counts.keys()].some((text) => !WORD.test(text) || text.length > MOST_LETTERS)) {
    return null;
  }
  const [usual] = [...counts].toSorted((a, b) => b[1] - a[1]);
  return usual !== undefined && usual[1] >= values.length * LEAST_PART ? usual[0] : null;
}
