// `warehouse rebuild` (`rebuildTables`): makes the tables of a resource again from the stored bodies of its records, as a
// backfill would make them, and swaps them in. A user does so after a change of the profile, such as another type of a field.
import { setImmediate } from 'node:timers/promises';
import { type CompiledQuery, type RawBuilder, sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { readViews, replaceShape, viewColumns } from '../../database/state/catalog.ts';
import { saveReshape } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { lastBodiesAfter } from '../../database/state/versions.ts';
import { GROWTH_OUTDATED } from '../../database/warehouse.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { ResourceShape, TableRows, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { shapeChanges } from '../../rows/evolve-shape.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldMask } from '../../rows/mask-fields.ts';
import { unwrapRecord } from '../../rows/records/as-record.ts';
import { textHash } from '../../rows/records/record-key.ts';
import { initialShape, shapeRecords } from '../../rows/shape-page.ts';
import { lenientProfile, takenNames, withNumeric } from '../grow-shape.ts';
import { growCalendarForRows, planViewGrowth } from '../grow-views.ts';
import type { LoadContext } from '../load-context.ts';
import { shapeOf } from '../prepare-page.ts';

/** Prefix of the staging tables, which are filled while the old tables are read. */
const STAGED = '_sync_beside_';

/** The result of a rebuild, for the report. */
export interface Rebuilt {
  /** Records with rows in the tables. */
  records: number;
  /** Live records without a stored body: they keep the values of unchanged columns. */
  bodiless: number;
  tables: string[];
  /** Columns that the new tables lack, as `table.column`. */
  gone: string[];
  /** Columns that are new or of another type. */
  changed: string[];
}

/**
 * Rebuilds the tables of a resource from the stored bodies in staging tables, and swaps them in with their views in one
 * transaction: readers see the old tables or the new ones. If it is stopped before that, nothing has changed. Call it
 * within `runAlone`. `statements` run in the transaction of the swap.
 */
export async function rebuildTables(
  context: LoadContext,
  statements: (after: ResourceShape) => readonly CompiledQuery[],
): Promise<Rebuilt> {
  const { warehouse, owned } = context;
  const before = shapeOf(owned);
  const after = await shapeOfBodies(context, await takenNames(context, before));
  const rebuild = { before, after, staged: stagedShape(after) };
  await warehouse.stageTables({
    lease: owned.lease(),
    shape: after,
    names: stagedNames(rebuild),
    references: new Set(Object.keys(context.whole.relations)),
  });
  await fillStagedTables(context, rebuild);
  const bodiless = await copyRowsWithoutBody(context, rebuild);
  await swapStagedTables(context, rebuild, statements(after));
  owned.shape = after;
  const root = after.tables[0]?.name ?? owned.resource;
  return {
    records: await warehouse.rows.countAll(root),
    bodiless,
    tables: after.tables.map(({ name }) => name),
    ...differences(before, after),
  };
}

/** Names are hashed, because a table's name may have the maximum length already. */
function stagedShape(shape: ResourceShape): ResourceShape {
  const tables = shape.tables.map((table) => ({ ...table, name: `${STAGED}${textHash(table.name).slice(0, 24)}` }));
  return { ...shape, tables };
}

/** Names of the staged tables by those that they get. */
function stagedNames({ after, staged }: Rebuild): Map<string, string> {
  return new Map(after.tables.map(({ name }, at) => [name, staged.tables[at]?.name ?? name]));
}

/** Fills the staged tables from the stored bodies; internal columns are copied from the old rows. */
async function fillStagedTables(context: LoadContext, rebuild: Rebuild): Promise<void> {
  const { before, after, staged } = rebuild;
  const { warehouse, owned, clock } = context;
  const profile = lenientProfile(context.profile);
  const requestedAt = timestampText(clock.now());
  const tables = new Map(after.tables.map(({ name }, at) => [name, staged.tables[at]]));
  const [old] = before.tables;
  if (old === undefined) return;
  for await (const bodies of storedPages(context)) {
    const keys = bodies.map(({ key }) => key);
    const stored = await warehouse.rows.stored(old, keys, []);
    const known = bodies.filter(({ key }) => stored.has(key));
    const shaped = shapeRecords({ shape: after, profile, records: known });
    if (shaped.shape !== after) throw new Error('a stored body does not fit the tables that were planned for it');
    const rejected = new Set(shaped.rejects.map(({ index }) => index));
    const records = known.flatMap(({ key, bytes }, index) => {
      const row = stored.get(key);
      return row === undefined || rejected.has(index) ? [] : [{ ...row, key, bytes }];
    });
    const page = {
      resource: owned.resource,
      history: 'none',
      requestedAt,
      rows: shaped.rows.map(({ table, width, cells }) => ({ table: tables.get(table.name) ?? table, width, cells })),
      children: staged.tables.slice(1),
      records,
    } as const;
    await growCalendarForRows(context, shaped.rows);
    const deleted = records.filter(({ deletedAt }) => deletedAt !== null).map(({ key }) => key);
    await warehouse.commit({ rows: page, lease: owned.lease(), statements: markDeleted(context, rebuild, deleted) });
  }
}

/** Returns the statements that give deleted records the times of their deletes, and remove their child rows. */
function markDeleted(
  { warehouse: { own, rows } }: LoadContext,
  { before, staged }: Rebuild,
  keys: readonly string[],
): CompiledQuery[] {
  const [[old], [made, ...children]] = [before.tables, staged.tables];
  if (old === undefined || made === undefined || keys.length === 0) return [];
  const [oldKey, key] = [sql.id(old.key[0] ?? ''), sql.id(made.key[0] ?? '')];
  const time = sql`SELECT o."_deleted_at" FROM ${rows.named(old.name)} AS o WHERE o.${oldKey} = ${rows.named(made.name)}.${key}`;
  return [
    sql`UPDATE ${rows.named(made.name)} SET "_deleted_at" = (${time}) WHERE ${key} IN (${sql.join(keys)})`,
    ...children.map((child) => {
      return sql`DELETE FROM ${rows.named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${sql.join(keys)})`;
    }),
  ].map((statement) => statement.compile(own));
}

/** Swaps the tables; plans again if another resource has changed its own tables meanwhile. */
async function swapStagedTables(
  context: LoadContext,
  rebuild: Rebuild,
  statements: readonly CompiledQuery[],
): Promise<void> {
  const { before, after } = rebuild;
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const at = timestampText(clock.now());
  for (;;) {
    // Views keep their types, so that external objects on them stay; `refreshViews` widens them afterwards.
    const held = new Set((await readViews(own)).keys());
    const { views, comments, claim, statements: planned } = await planViewGrowth(context, after, { held });
    try {
      await warehouse.swapTables({
        lease: owned.lease(),
        shape: after,
        names: stagedNames(rebuild),
        dropped: before.tables.map(({ name }) => name),
        standing: await viewColumns(own),
        views,
        comments,
        claim,
        references: new Set(Object.keys(context.whole.relations)),
        statements: [
          ...replaceShape(own, before, after, at, profile, context.runId),
          ...planned,
          saveReshape(own, owned.resource, null),
          ...statements,
        ],
      });
      return;
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== GROWTH_OUTDATED) throw error;
    }
  }
}

function differences(before: ResourceShape, after: ResourceShape): Pick<Rebuilt, 'gone' | 'changed'> {
  const [old, made] = [columnTypes(before), columnTypes(after)];
  return {
    gone: [...old.keys()].filter((name) => !made.has(name)),
    changed: [...made.keys()].filter((name) => old.get(name) !== made.get(name)),
  };
}

/** The types of all columns, by `table.column`. */
function columnTypes({ tables }: ResourceShape): Map<string, ColumnType> {
  return new Map(tables.flatMap((table) => table.columns.map(({ name, type }) => [`${table.name}.${name}`, type])));
}

/** The old tables, and those that replace them. */
interface Rebuild {
  before: ResourceShape;
  after: ResourceShape;
  /** The new tables, under the names of the staging tables. */
  staged: ResourceShape;
}

/** The internal columns, whose values stay. */
const STAMPS = ['_hash', '_version', '_synced_at', '_deleted_at'] as const;

/** Copies the rows of records without a stored body, in columns that did not change. Returns how many are live. */
async function copyRowsWithoutBody({ warehouse, owned }: LoadContext, rebuild: Rebuild): Promise<number> {
  const {
    own,
    rows: { named },
  } = warehouse;
  const [old, made] = [rebuild.before.tables[0], rebuild.staged.tables[0]];
  if (old === undefined || made === undefined) return 0;
  const [oldKey, key] = [sql.id(old.key[0] ?? ''), sql.id(made.key[0] ?? '')];
  const { rows } = await sql<{ id: string; is_deleted: unknown }>`
    SELECT o.${oldKey} AS "id", o."_deleted_at" AS "is_deleted" FROM ${named(old.name)} AS o
    WHERE NOT EXISTS (SELECT 1 FROM ${named(made.name)} AS n WHERE n.${key} = o.${oldKey})`.execute(own);
  for (const part of inParts(rows)) {
    const ids = part.map(({ id }) => id);
    const statements = rebuild.after.tables.flatMap((table, at) => copyStatements(rebuild, table, at, named, ids));
    await owned.commit(statements.map((statement) => statement.compile(own)));
  }
  return rows.filter(({ is_deleted }) => is_deleted === null).length;
}

/** Returns the statement that copies rows of one table, in columns that keep their name and type. */
function copyStatements(
  { before, staged }: Rebuild,
  table: TableShape,
  at: number,
  named: LoadContext['warehouse']['rows']['named'],
  ids: readonly string[],
): RawBuilder<unknown>[] {
  const old = before.tables.find(({ name }) => name === table.name);
  const made = staged.tables[at];
  if (old === undefined || made === undefined || old.key.join() !== table.key.join()) return [];
  const same = table.columns.filter(({ name, type }) =>
    old.columns.some((one) => one.name === name && one.type === type),
  );
  const stamps = table.path.length === 0 ? STAMPS : [];
  const columns = sql.join([...table.key, ...stamps, ...same.map(({ name }) => name)].map((name) => sql.id(name)));
  return [
    sql`INSERT INTO ${named(made.name)} (${columns}) SELECT ${columns} FROM ${named(table.name)}
      WHERE ${sql.id(table.key[0] ?? '')} IN (${sql.join(ids)})`,
  ];
}

/**
 * Computes the tables that a backfill of the stored bodies would create, and writes nothing. `taken` has the names of
 * other tables and views.
 */
async function shapeOfBodies(context: LoadContext, taken: ReadonlySet<string>): Promise<ResourceShape> {
  const { owned } = context;
  const profile = lenientProfile(context.profile);
  /** Integer columns with values that a double would change. */
  const exact = new Set<string>();
  let shape = initialShape(owned.resource, profile);
  for await (const records of storedPages(context)) {
    const grown = shapeRecords({ shape, profile, records, tableNames: taken });
    const found = withNumeric(grown.shape, numericColumns(shape, grown.shape, exact));
    const { shape: after, rows } =
      found === grown.shape ? grown : shapeRecords({ shape: found, profile, records, tableNames: taken });
    for (const table of rows) noteExact(table, exact);
    shape = after;
  }
  return shape;
}

/** Returns the integer columns that become double although a double would lose digits of their values. */
function numericColumns(before: ResourceShape, after: ResourceShape, exact: ReadonlySet<string>): Set<string> {
  const doubles = shapeChanges(before, after).filter(
    ({ from, column }) => from === 'integer' && column.type === 'double',
  );
  const names = doubles.map(({ table, column }) => `${table} ${column.name}`);
  return new Set(names.filter((name) => exact.has(name)));
}

/** Adds the integer columns, as `table column`, that hold a value whose digits a double would lose. */
function noteExact({ table, width, cells }: TableRows, exact: Set<string>): void {
  for (const [at, { name, type }] of table.columns.entries()) {
    if (type !== 'integer' || exact.has(`${table.name} ${name}`)) continue;
    for (let cell = table.key.length + at; cell < cells.length; cell += width) {
      const value = cells[cell];
      const isExact = (typeof value === 'bigint' || typeof value === 'number') && !Number.isSafeInteger(Number(value));
      if (isExact) exact.add(`${table.name} ${name}`);
    }
  }
}

/** A stored body as a record, with its key. */
interface StoredRecord extends SourceRecord {
  key: string;
}

const RECORDS_PER_PAGE = 500;

/**
 * Reads all records with a stored body, deleted ones included, in the order of their ids and under the current profile.
 * Throws the signal's reason between two pages.
 */
async function* storedPages({
  warehouse,
  owned,
  profile,
  signal,
}: LoadContext): AsyncGenerator<readonly StoredRecord[]> {
  const read = bodyReader(profile);
  for (let after = ''; ;) {
    const bodies = await lastBodiesAfter(warehouse.own, owned.resource, after, RECORDS_PER_PAGE);
    const last = bodies.at(-1);
    if (last === undefined) return;
    yield bodies.map(({ id, body }) => Object.assign(read(body), { key: id }));
    after = last.id;
    // SQLite does not yield: signals would wait for the last page.
    await setImmediate();
    signal.throwIfAborted();
  }
}

/** Returns a function that reads a stored body without excluded fields. Hashed fields were hashed when they were stored. */
export function bodyReader({ unwrap, fields }: ResourceProfile): (body: string) => SourceRecord {
  const excluded = Object.entries(fields).filter(([, { exclude }]) => exclude);
  const hide = fieldMask(Object.fromEntries(excluded.map(([path]) => [path, { exclude: true, hash: false }])), '');
  return (body) => {
    const record = { value: unwrapRecord(parseJson(body), unwrap), bytes: Buffer.from(body) };
    return excluded.length === 0 ? record : hide(record);
  };
}
