import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { smallStage } from '../support/small-stage.ts';

const OPERATIONS = ['INSERT', 'UPDATE', 'DELETE'] as const;
const TABLES = [
  'content',
  '_sync_checkpoints',
  '_sync_leases',
  '_sync_runs',
  '_sync_seen',
  '_sync_suspects',
  '_sync_versions',
] as const;

/** A kind of statement that the database refuses, once a walk has stored so many pages. */
interface Refused {
  table: (typeof TABLES)[number];
  operation: (typeof OPERATIONS)[number];
  pages: number;
}

/** All kinds, at each page of a walk of three. */
const ALL_REFUSED: readonly Refused[] = TABLES.flatMap((table) =>
  OPERATIONS.flatMap((operation) => [0, 1, 2].map((pages) => ({ table, operation, pages }))),
);

/** As statements that make the database refuse it, and that end it. */
function trigger(database: TestDatabase, { table, operation, pages }: Refused): { make: string[]; end: string[] } {
  const isThen = `(SELECT coalesce(max(walk_pages), 0) FROM _sync_checkpoints) = ${pages}`;
  if (database.name === 'sqlite') {
    const make = `CREATE TRIGGER refuse BEFORE ${operation} ON ${table} WHEN ${isThen}
      BEGIN SELECT RAISE(ABORT, 'refused by the test'); END`;
    return { make: [make], end: ['DROP TRIGGER refuse'] };
  }
  const refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF ${isThen} THEN RAISE 'refused by the test' USING ERRCODE = '53100'; END IF; RETURN NULL; END $$`;
  const make = `CREATE TRIGGER refuse BEFORE ${operation} ON ${table} EXECUTE FUNCTION refuse()`;
  return { make: [refuse, make], end: [`DROP TRIGGER refuse ON ${table}`, 'DROP FUNCTION refuse'] };
}

/**
 * Whole walks of three pages that find records new, changed and gone; in each of them the database refuses one kind of
 * statement from a page on. The walk after it finds all as it should be. Returns how many walks were stopped.
 */
async function survives(database: TestDatabase, kinds: readonly Refused[]): Promise<number> {
  const stage = await smallStage({}, {}, { database, source: { deletes: { max_part: 1 } } });
  const { service } = stage;
  for (let id = 10; id < 34; id += 1) service.put(`old${id}`);
  await stage.walk('backfill');
  let stopped = 0;
  for (const [at, kind] of kinds.entries()) {
    service.put(`new${at}`);
    service.put('old11', { title: `changed ${at}` });
    service.records.delete(at === 0 ? 'old10' : `new${at - 1}`);
    const { make, end } = trigger(database, kind);
    for (const statement of make) await stage.write(statement);
    const refused = await stage.walk('backfill').catch(() => null);
    for (const statement of end) await stage.write(statement);
    // What it calls whole is whole, whether anything was refused or not.
    if (refused?.status !== 'ok') stopped += 1;
    const unlike = refused?.status === 'ok' ? await stage.unlike() : [];
    expect({ kind, unlike }).toEqual({ kind, unlike: [] });
    const { status } = await stage.walk('backfill');
    expect({ kind, status, unlike: await stage.unlike() }).toEqual({ kind, status: 'ok', unlike: [] });
  }
  return stopped;
}

/** The long form refuses them all. */
const REFUSED: readonly Refused[] = [
  { table: '_sync_checkpoints', operation: 'UPDATE', pages: 1 },
  { table: '_sync_versions', operation: 'INSERT', pages: 0 },
  { table: '_sync_suspects', operation: 'DELETE', pages: 0 },
  { table: '_sync_runs', operation: 'UPDATE', pages: 0 },
  { table: '_sync_leases', operation: 'UPDATE', pages: 2 },
];

describe.for(DATABASES)('a database on $name that refuses a statement', (database) => {
  it('keeps whole what it has', async () => {
    const stopped = await survives(database, longOrShort(ALL_REFUSED, REFUSED));
    expect(stopped).toBeGreaterThanOrEqual(longOrShort(10, REFUSED.length));
  });
});
