import { describe, expect, it } from 'vitest';
import { hasBlog } from '../support/corpora.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { asking, type Row } from './ask.ts';
import { addDrifter, driftSteps } from './story/drifts.ts';
import { oddRecords } from './story/odd-records.ts';
import { blogStory, type Step, type Story } from './story/story.ts';
import { telling } from './story/told.ts';

/** Tables and views that people read, each with its columns. */
const OBJECTS = {
  sqlite: `SELECT m.name, c.name AS column_name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
    WHERE m.type IN ('table', 'view') AND m.name NOT GLOB '_sync*' AND m.name NOT GLOB 'sqlite_*'`,
  postgres: `SELECT relname AS name, attname AS column_name FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') AND attnum > 0 AND NOT attisdropped
      AND relname NOT LIKE '\\_sync%'`,
};

/** Columns that differ by database: types, and example values in descriptions. */
const OWN_WORDS = new Set([
  'sync_dictionary.type',
  'sync_dictionary.description',
  'sync_schema_log.from_type',
  'sync_schema_log.to_type',
]);

/** Steps that the short form skips. */
const QUICK = new Set(longOrShort([], [2, 4, 8, 9, 10]));

const STORIES: Readonly<Record<string, () => Story>> = {
  'the story of the blog': () => {
    const { records, steps } = blogStory(25);
    addDrifter(records);
    return { records, steps: [...steps, ...driftSteps()].filter((_, at) => !QUICK.has(at)) };
  },
  'odd texts, values and names': () => ({ records: oddRecords(longOrShort(1, 5)), steps: ODD_STEPS }),
};

const ODD_STEPS: Step[] = ['2024-11-01T03:30:00.000Z', '2024-11-02T03:30:00.000Z'].map((at, day) => ({
  at,
  command: 'backfill',
  resources: ['content', 'images', 'analytics'],
  happens: ({ content }) => {
    for (const post of day === 0 ? [] : [...content.values()].slice(0, 100)) {
      content.set(post.id, { ...post, title: post.body, body: post.slug + post.slug, tags: [post.slug] });
    }
    if (day > 0) content.delete('odd_7');
  },
}));

describe.runIf(hasBlog())('every table and view', () => {
  it.each(Object.entries(STORIES))('can be read, by each of its columns, after %s', async (_, story) => {
    const copies: Copy[] = [];
    // One after the other: queries of SQLite keep the process from all else.
    for (const database of DATABASES) copies.push(await readCopy(database, story()));
    for (const { faults } of copies) expect.soft(faults).toEqual([]);
    const [first, ...others] = copies.map(({ objects }) => objects);
    for (const other of others) {
      expect([...other.keys()]).toEqual([...(first?.keys() ?? [])]);
      for (const [name, rows] of first ?? []) {
        expect.soft([name, firstDifference(rows, other.get(name) ?? [])]).toEqual([name, null]);
      }
    }
  });
});

interface Copy {
  /** Queries that failed, or found another number of rows. */
  faults: unknown[];
  /** All rows of each object, as texts. */
  objects: Map<string, string[]>;
}

async function readCopy(database: TestDatabase, { records, steps }: Story): Promise<Copy> {
  const told = await telling(database, records);
  for (const step of steps) await told.play(step);
  const ask = asking(database, told.stage);
  const [found = []] = await ask([OBJECTS[database.name]]);
  if (found instanceof Error) throw found;
  const copy: Copy = { faults: [], objects: new Map() };
  for (const [name, columns] of columnsByName(found)) {
    const table = quoted(name);
    const queries = sampled(columns, 6, columns.length).flatMap((column) => queriesOn(table, quoted(column)));
    const [all = [], counted, ...rest] = await ask([
      `SELECT * FROM ${table}`,
      `SELECT count(*) AS n FROM ${table}`,
      ...queries,
    ]);
    const failed = [all, ...rest].filter((rows) => rows instanceof Error);
    if (failed.length > 0) copy.faults.push([name, failed.map(String)]);
    if (all instanceof Error) continue;
    if (!(counted instanceof Error) && counted?.[0]?.['n'] !== all.length) copy.faults.push([name, counted]);
    const wrong = rest.filter((rows, at) => at % 3 === 0 && !(rows instanceof Error) && rows.length !== all.length);
    if (wrong.length > 0) copy.faults.push([name, wrong.length, 'columns have other rows']);
    copy.objects.set(name, all.map((row) => plain(name, row)).toSorted());
  }
  return copy;
}

function queriesOn(table: string, column: string): string[] {
  return [
    `SELECT ${column} FROM ${table}`,
    `SELECT count(*) AS n FROM ${table} WHERE ${column} IS NOT NULL`,
    `SELECT count(*) AS n FROM ${table} WHERE CAST(${column} AS text) = 'x'`,
  ];
}

function columnsByName(rows: readonly Row[]): [string, string[]][] {
  const found = new Map<string, string[]>();
  for (const { name, column_name } of rows) {
    found.set(String(name), [...(found.get(String(name)) ?? []), String(column_name)]);
  }
  return [...found].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Columns by their names; JSON as its value, whatever the order of its fields. */
function plain(table: string, row: Row): string {
  const cells = Object.entries(row).filter(([name]) => !OWN_WORDS.has(`${table}.${name}`));
  return JSON.stringify(
    cells.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => [name, jsonValue(value)]),
  );
}

/** JSON by its value, within other texts without its spaces; numbers as numbers, which columns of long ones have as texts in SQLite. */
function jsonValue(value: unknown): unknown {
  if (typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)) return Math.round(Number(value) * 1e6) / 1e6;
  if (typeof value !== 'string') return value;
  if (!/^[[{"]/.test(value)) return value.includes('{') || value.includes('[') ? value.replaceAll(' ', '') : value;
  try {
    return inOrder(JSON.parse(value));
  } catch {
    return value;
  }
}

function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, each]) => [name, inOrder(each)]);
}

/** Returns null if they are equal. */
function firstDifference(rows: readonly string[], others: readonly string[]): unknown {
  const at = rows.findIndex((row, place) => row !== others[place]);
  if (at === -1 && rows.length === others.length) return null;
  return { rows: rows.length, others: others.length, row: rows[at], other: others[at] };
}
