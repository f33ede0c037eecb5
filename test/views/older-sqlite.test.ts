import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { VIEW_DIALECT } from '../../src/database/sqlite/views/dialect.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/vocabulary.ts';
import { hasBlog } from '../support/corpora.ts';
import { SQLITE } from '../support/databases.ts';
import { fileRow, putFiles } from '../support/file-rows.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { addDrifter, driftSteps } from './story/drifts.ts';
import { oddRecords } from './story/odd-records.ts';
import { blogStory } from './story/story.ts';
import { telling } from './story/told.ts';

/** One row, cell by cell: the type that SQLite has stored and the value. */
type TypedRow = readonly unknown[];

/** A database file opened by one version of SQLite. */
interface VersionedFile {
  version: string;
  /** All rows of a query, with the storage class of each of its columns. */
  rows(query: string): TypedRow[];
  close(): void;
}

/** The part of sql.js that reads a file. */
interface SqlJsDatabase {
  prepare(query: string): { step(): boolean; get(): unknown[]; free(): boolean };
  close(): void;
}

type SqlJs = (options: { wasmBinary: Buffer }) => Promise<{ Database: new (file: Uint8Array) => SqlJsDatabase }>;

/** npm aliases of sql.js. Of its releases these have the oldest SQLite with JSON, the first with `->`, and the last with text JSON. */
const OLDER_SQLITE = ['sqljs-335', 'sqljs-338', 'sqljs-344'] as const;

const require = createRequire(import.meta.url);

/** Opens a copy of the file, without a write-ahead log, which sql.js cannot read. */
async function openWith(packageName: string, file: string): Promise<VersionedFile> {
  const copy = path.join(tempFolder(), 'copy.db');
  const writer = new Database(file, { timeout: 5_000 });
  writer.prepare('VACUUM INTO ?').run(copy);
  writer.close();
  const load: SqlJs = require(packageName);
  const wasmBinary = readFileSync(path.join(path.dirname(require.resolve(packageName)), 'sql-wasm.wasm'));
  const { Database: OlderDatabase } = await load({ wasmBinary });
  const db = new OlderDatabase(readFileSync(copy));
  const rows = (query: string): unknown[][] => {
    const statement = db.prepare(query);
    const found: unknown[][] = [];
    while (statement.step()) found.push(statement.get().map(asBuffer));
    statement.free();
    return found;
  };
  return { version: String(rows('SELECT sqlite_version()')[0]?.[0]), rows, close: () => db.close() };
}

/** The same with the SQLite that content-sync itself uses. */
function openWithNewest(file: string): VersionedFile {
  const db = new Database(file, { readonly: true, timeout: 5_000 });
  const rows = (query: string): unknown[][] => db.prepare<[], unknown[]>(query).raw().all();
  return { version: String(rows('SELECT sqlite_version()')[0]?.[0]), rows, close: () => db.close() };
}

function asBuffer(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value) : value;
}

/** Each makes a file of the blog of the corpora by real runs. */
const BLOGS: Readonly<Record<string, () => Promise<string>>> = {
  'a blog whose records take other forms, with files': async () => {
    const { records, steps } = blogStory(25);
    addDrifter(records);
    const told = await telling(SQLITE, records);
    for (const step of [...steps, ...driftSteps()]) await told.play(step);
    const app = await told.stage.open();
    const images = [...records.images.keys()].slice(0, 3);
    await putFiles(
      app,
      images.map((id) => fileRow(id, {})),
    ).finally(() => app.close());
    return told.stage.file;
  },
  'odd texts and names': async () => {
    const told = await telling(SQLITE, oddRecords(5));
    const resources = ['content', 'images', 'analytics'] as const;
    await told.play({ at: '2024-11-01T03:30:00.000Z', command: 'backfill', resources, happens: () => undefined });
    return told.stage.file;
  },
};

const ROW_OF = `SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
  WHERE m.type IN ('table', 'view') AND m.name NOT GLOB 'sqlite_*' ORDER BY m.type, m.name, c.cid`;

function columnsByName(file: VersionedFile): Map<string, string[]> {
  const columns = file.rows(ROW_OF);
  return new Map(
    [...Map.groupBy(columns, ([name]) => String(name))].map(([name, of]) => [
      name,
      of.map(([, column]) => String(column)),
    ]),
  );
}

/** Every column with its storage class: 1 and 1.0 are one number here. */
function allRows(name: string, columns: readonly string[]): string {
  const classes = columns.map((column) => `typeof(${quoted(column)})`);
  return `SELECT *, ${classes.join(', ')} FROM ${quoted(name)}`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Objects that one version of SQLite cannot read, or reads differently from the newest, with the first different row. */
function differences(older: VersionedFile, newest: VersionedFile): unknown[] {
  return [...columnsByName(newest)].flatMap(([name, columns]): unknown[] => {
    const query = allRows(name, columns);
    const expected = newest.rows(query).map(asText).toSorted();
    try {
      const found = older.rows(query).map(asText).toSorted();
      const at = expected.findIndex((row, place) => row !== found[place]);
      const isSame = at === -1 && found.length === expected.length;
      return isSame ? [] : [{ name, rows: [expected.length, found.length], expected: expected[at], found: found[at] }];
    } catch (error) {
      return [{ name, error: String(error) }];
    }
  });
}

/** Before 3.43 SQLite adds up doubles without correcting the last digits. */
function asText(row: readonly unknown[]): string {
  return JSON.stringify(row.map((cell) => (typeof cell === 'number' ? Number(cell.toPrecision(13)) : cell)));
}

describe.skipIf(!hasBlog()).each(Object.entries(BLOGS))('a file of %s', (_, make) => {
  it('reads the same in older versions of SQLite', async () => {
    const file = await make();
    const newest = openWithNewest(file);
    expect(columnsByName(newest).size).toBeGreaterThan(30);
    for (const name of OLDER_SQLITE) {
      const older = await openWith(name, file);
      expect.soft({ version: older.version, differences: differences(older, newest) }).toEqual({
        version: expect.stringMatching(/^3\.(35|38|44)\./),
        differences: [],
      });
      older.close();
    }
    newest.close();
  });
});

function convert(value: string, from: ColumnType, to: ColumnType): string {
  return VIEW_DIALECT.computeOnce(value, (sql) => VIEW_DIALECT.converted(sql, from, to));
}

/** The most deeply nested expressions of a history: a field whose type was pinned, and became another later. */
function deepExpressions(): string[] {
  const { bodies } = VIEW_DIALECT;
  return ['plain', 'Größe', ''].flatMap((key) =>
    COLUMN_TYPES.flatMap((pinned) => {
      const text = convert(bodies.value([key, key], 'text', null), 'text', pinned);
      const value = `COALESCE(${bodies.value([key, key], pinned, 'Europe/Zurich')}, ${text})`;
      return COLUMN_TYPES.map((shown) => VIEW_DIALECT.declared(convert(value, pinned, shown), shown));
    }),
  );
}

describe('the parser of the oldest version', () => {
  it('can parse every expression of a view', async () => {
    const older = await openWith(OLDER_SQLITE[0], path.join(tempFolder(), 'empty.db'));
    for (const [at, sql] of deepExpressions().entries()) {
      older.rows(`CREATE VIEW v${at} AS SELECT v."id", ${sql} AS "value" FROM "_sync_versions" AS v`);
    }
    expect(older.rows('SELECT count(*) FROM sqlite_master')).toEqual([[3 * COLUMN_TYPES.length ** 2]]);
    older.close();
  });
});
