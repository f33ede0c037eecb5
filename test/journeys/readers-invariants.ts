import Database from 'better-sqlite3';
import { longOrShort } from '../support/length.ts';
import { Client } from 'pg';
import { snapshotOf } from '../support/postgres-snapshot.ts';

/** A BI tool's connection to a warehouse. */
interface WholeReader {
  /** Gives everything, as one transaction sees it, to `look`, as a SQLite database on either. */
  read(look: (db: Database.Database) => void): Promise<void>;
  close(): Promise<void>;
}

function openReader(address: string): Promise<WholeReader> {
  return address.startsWith('sqlite:') ? Promise.resolve(fileReader(address)) : schemaReader(address);
}

function fileReader(address: string): WholeReader {
  const db = new Database(address.slice('sqlite:'.length), { readonly: true });
  return {
    read: (look) => Promise.resolve(db.transaction(look)(db)),
    close: async () => void db.close(),
  };
}

async function schemaReader(address: string): Promise<WholeReader> {
  const url = new URL(address);
  const schema = url.searchParams.get('schema') ?? 'public';
  url.searchParams.delete('schema');
  const client = new Client({ connectionString: url.href });
  await client.connect();
  return {
    read: async (look) => {
      const db = await snapshotOf(client, schema);
      look(db);
      db.close();
    },
    close: () => client.end(),
  };
}

/**
 * A BI tool that checks again and again that the warehouse named first is whole: each time all of it within one read
 * transaction. Goes on until it gets SIGUSR2, and has looked as often as the second argument says. Prints `reading` when
 * it begins, and what it found, as JSON, at its end.
 *
 * The service changes all records at once, each time to the next `generation`, and never while it is walked: so a walk
 * has brought in exactly as many records of the newest generation as its checkpoint counts.
 */
const [address = '', times = '0'] = process.argv.slice(2);
const RESOURCES = ['content', 'images', 'analytics'] as const;
const LISTS = [
  ['content_tags', 'tags'],
  ['content_authors', 'authors'],
] as const;

interface Counts {
  total: number;
  newest: number;
  before: number;
  top: number | null;
}

interface Walk {
  walk_mode: string | null;
  walk_records: number;
  last_success_at: string | null;
}

const most = new Map<string, number>();
const violations = new Set<string>();
const states = new Set<string>();
const figures = { reads: 0, midWalk: 0, fewest: Infinity };

function look(db: Database.Database): void {
  const names = new Set(db.prepare<[], string>('SELECT name FROM sqlite_schema').pluck().all());
  for (const resource of RESOURCES) if (names.has(resource)) lookAt(db, resource);
  for (const [table, field] of LISTS) if (names.has(table)) lookAtList(db, table, field);
}

const reader = await openReader(address);
const state = { isEnough: false };
process.on('SIGUSR2', () => (state.isEnough = true));
console.log('reading');
for (; !state.isEnough || figures.reads < Number(times); figures.reads += 1) {
  await reader.read(look);
  // The machine has other things to do too.
  if (figures.reads % longOrShort(20, 4) === 0) await new Promise((resolve) => setTimeout(resolve, longOrShort(1, 5)));
}
console.log(JSON.stringify({ ...figures, states: states.size, violations: [...violations].slice(0, 20) }));
await reader.close();

function lookAt(db: Database.Database, resource: string): void {
  const { total, newest, before, top } = countsOf(db, resource);
  if (total === 0 && !most.has(resource)) return;
  const walk = db
    .prepare<[string], Walk>(
      'SELECT walk_mode, walk_records, last_success_at FROM _sync_checkpoints WHERE resource = ?',
    )
    .get(resource);
  states.add(`${resource} ${top} ${newest}`);
  if (walk !== undefined && walk.walk_mode !== null) figures.midWalk += 1;
  // A first walk fills the table page by page; from then on nothing ever goes.
  if (walk?.last_success_at != null) {
    figures.fewest = Math.min(figures.fewest, total);
    if (total < (most.get(resource) ?? 1)) violate(resource, `${total} rows, after ${most.get(resource)}`);
  }
  most.set(resource, Math.max(most.get(resource) ?? 0, total));
  const wanted = walk?.walk_mode == null ? total : walk.walk_records;
  if (newest !== wanted) violate(resource, `${newest} rows of generation ${top}, and the checkpoint says ${wanted}`);
  if (newest + before !== total) violate(resource, `rows of more than two generations: ${total - newest - before}`);
  const versions = one(db, 'SELECT count(*) FROM _sync_versions WHERE resource = ? AND valid_to IS NULL', resource);
  if (versions !== total) violate(resource, `${total} rows and ${versions} open versions`);
  const strays = one(
    db,
    `SELECT count(*) FROM "${resource}" t LEFT JOIN _sync_versions v ON v.resource = ? AND v.id = t.id
     AND v.version = t._version AND v.hash = t._hash AND v.valid_to IS NULL
     WHERE v.body ->> '$.generation' IS NOT t.generation`,
    resource,
  );
  if (strays !== 0) violate(resource, `${strays} rows that are not what their version says`);
}

function countsOf(db: Database.Database, resource: string): Counts {
  const empty = { total: 0, newest: 0, before: 0, top: null };
  // The table is made before its first columns.
  if (one(db, `SELECT count(*) FROM "${resource}"`) === 0) return empty;
  const counts = db.prepare<[], Counts>(
    `SELECT count(*) AS total, top, total(generation = top) AS newest, total(generation = top - 1) AS before
     FROM "${resource}", (SELECT max(generation) AS top FROM "${resource}") WHERE _deleted_at IS NULL`,
  );
  return counts.get() ?? empty;
}

/** Rows without their record, and records of which a part is missing. */
function lookAtList(db: Database.Database, table: string, field: string): void {
  const orphans = one(
    db,
    `SELECT count(*) FROM "${table}" l LEFT JOIN content c ON c.id = l.content_id AND c._deleted_at IS NULL WHERE c.id IS NULL`,
  );
  if (orphans !== 0) violate(table, `${orphans} rows of no record`);
  const halves = one(
    db,
    `SELECT count(*) FROM content c JOIN _sync_versions v ON v.resource = 'content' AND v.id = c.id AND v.valid_to IS NULL
     WHERE json_array_length(v.body, '$.${field}') <> (SELECT count(*) FROM "${table}" l WHERE l.content_id = c.id)`,
  );
  if (halves !== 0) violate(table, `${halves} records with more or fewer rows than in their body`);
}

function one(db: Database.Database, query: string, ...values: unknown[]): number {
  return Number(
    db
      .prepare<unknown[], number>(query)
      .pluck()
      .get(...values),
  );
}

function violate(table: string, what: string): void {
  violations.add(`${table}: ${what}`);
}
