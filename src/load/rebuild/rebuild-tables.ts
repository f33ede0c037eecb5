// `warehouse rebuild` (`rebuildTables`): creates the tables of a resource again from the stored bodies of its records, as a
// backfill would, without a request. Example: a user has changed the type of the field `price` in the profile; the old
// rows have it as text.
import { setImmediate } from 'node:timers/promises';
import { type CompiledQuery, type RawBuilder, sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { readViews, replaceShape, viewColumns } from '../../database/state/catalog.ts';
import { saveRewrittenUpTo } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { lastBodiesAfter } from '../../database/state/versions.ts';
import { internalColumns } from '../../database/table-layout.ts';
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

/** The prefix of staging tables, which are filled while readers still use the old tables. */
const STAGING_PREFIX = '_sync_beside_';

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
export async function rebuildTables(context: LoadContext, statements: readonly CompiledQuery[]): Promise<Rebuilt> {
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
  await swapStagedTables(context, rebuild, statements);
  owned.shape = after;
  const root = after.tables[0]?.name ?? owned.resource;
  return {
    records: await warehouse.rows.countAll(root),
    bodiless,
    tables: after.tables.map(({ name }) => name),
    ...differences(before, after),
  };
}

/** Returns the shape with the names of the staging tables, which are hashes: a table's name may have the maximum length. */
function stagedShape(shape: ResourceShape): ResourceShape {
  const tables = shape.tables.map((table) => {
    return { ...table, name: `${STAGING_PREFIX}${textHash(table.name).slice(0, 24)}` };
  });
  return { ...shape, tables };
}

/** Maps the final name of each table to the name of its staging table. */
function stagedNames({ after, staged }: Rebuild): Map<string, string> {
  return new Map(after.tables.map(({ name }, at) => [name, staged.tables[at]?.name ?? name]));
}

/** Fills the staging tables from the stored bodies; the values of internal columns are those of the old rows. */
async function fillStagedTables(context: LoadContext, rebuild: Rebuild): Promise<void> {
  const { before, after, staged } = rebuild;
  const { warehouse, owned, clock } = context;
  const profile = lenientProfile(context.profile);
  const requestedAt = timestampText(clock.now());
  const stagingTables = new Map(after.tables.map(({ name }, at) => [name, staged.tables[at]]));
  const [oldRoot] = before.tables;
  if (oldRoot === undefined) return;
  for await (const bodies of readStoredRecords(context)) {
    const keys = bodies.map(({ key }) => key);
    const oldRows = await warehouse.rows.stored(oldRoot, keys, []);
    const copied = bodies.filter(({ key }) => oldRows.has(key));
    const shaped = shapeRecords({ shape: after, profile, records: copied });
    if (shaped.shape !== after) throw new Error('a stored body does not fit the tables that were planned for it');
    const rejected = new Set(shaped.rejects.map(({ index }) => index));
    const records = copied.flatMap(({ key, bytes }, index) => {
      const row = oldRows.get(key);
      return row === undefined || rejected.has(index) ? [] : [{ ...row, key, bytes }];
    });
    const page = {
      resource: owned.resource,
      history: 'none',
      requestedAt,
      rows: shaped.rows.map((rows) => ({ ...rows, table: stagingTables.get(rows.table.name) ?? rows.table })),
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
  const [[oldRoot], [newRoot, ...children]] = [before.tables, staged.tables];
  if (oldRoot === undefined || newRoot === undefined || keys.length === 0) return [];
  const [oldKey, newKey] = [sql.id(oldRoot.key[0] ?? ''), sql.id(newRoot.key[0] ?? '')];
  const [oldTable, newTable] = [rows.named(oldRoot.name), rows.named(newRoot.name)];
  const time = sql`SELECT o."_deleted_at" FROM ${oldTable} AS o WHERE o.${oldKey} = ${newTable}.${newKey}`;
  return [
    sql`UPDATE ${newTable} SET "_deleted_at" = (${time}) WHERE ${newKey} IN (${sql.join(keys)})`,
    ...children.map((child) => {
      return sql`DELETE FROM ${rows.named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${sql.join(keys)})`;
    }),
  ].map((statement) => statement.compile(own));
}

/** Swaps the tables. If another resource has changed its tables meanwhile, the views are planned again. */
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
    // All views keep their types, so that external objects on them stay; the caller widens the views later.
    const held = new Set((await readViews(own)).keys());
    const { views, comments, claim, statements: viewStatements } = await planViewGrowth(context, after, { held });
    try {
      await warehouse.swapTables({
        lease: owned.lease(),
        shape: after,
        names: stagedNames(rebuild),
        dropped: before.tables.map(({ name }) => name),
        existingViews: await viewColumns(own),
        views,
        comments,
        claim,
        references: new Set(Object.keys(context.whole.relations)),
        statements: [
          ...replaceShape(own, before, after, { at, runId: context.runId, descriptions: profile }),
          ...viewStatements,
          saveRewrittenUpTo(own, owned.resource, null),
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
  const [oldTypes, newTypes] = [columnTypes(before), columnTypes(after)];
  return {
    gone: [...oldTypes.keys()].filter((name) => !newTypes.has(name)),
    changed: [...newTypes.keys()].filter((name) => oldTypes.get(name) !== newTypes.get(name)),
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

/** Copies the rows of records without a stored body, in columns that did not change. Returns how many are live. */
async function copyRowsWithoutBody({ warehouse, owned }: LoadContext, rebuild: Rebuild): Promise<number> {
  const { own } = warehouse;
  const { named } = warehouse.rows;
  const [oldRoot, newRoot] = [rebuild.before.tables[0], rebuild.staged.tables[0]];
  if (oldRoot === undefined || newRoot === undefined) return 0;
  const [oldKey, newKey] = [sql.id(oldRoot.key[0] ?? ''), sql.id(newRoot.key[0] ?? '')];
  const { rows } = await sql<{ id: string; deleted_at: unknown }>`
    SELECT o.${oldKey} AS "id", o."_deleted_at" AS "deleted_at" FROM ${named(oldRoot.name)} AS o
    WHERE NOT EXISTS (SELECT 1 FROM ${named(newRoot.name)} AS n WHERE n.${newKey} = o.${oldKey})`.execute(own);
  for (const part of inParts(rows)) {
    const ids = part.map(({ id }) => id);
    const statements = rebuild.after.tables.flatMap((table, at) => copyStatements(rebuild, table, at, named, ids));
    await owned.commit(statements.map((statement) => statement.compile(own)));
  }
  return rows.filter(({ deleted_at }) => deleted_at === null).length;
}

/** Returns the statement that copies rows of one table, in columns that keep their name and type. */
function copyStatements(
  { before, staged }: Rebuild,
  table: TableShape,
  at: number,
  named: LoadContext['warehouse']['rows']['named'],
  ids: readonly string[],
): RawBuilder<unknown>[] {
  const oldTable = before.tables.find(({ name }) => name === table.name);
  const newTable = staged.tables[at];
  if (oldTable === undefined || newTable === undefined || oldTable.key.join() !== table.key.join()) return [];
  const unchanged = table.columns.filter(({ name, type }) =>
    oldTable.columns.some((one) => one.name === name && one.type === type),
  );
  const copied = [...internalColumns(table), ...unchanged].map(({ name }) => name);
  const columns = sql.join([...table.key, ...copied].map((name) => sql.id(name)));
  return [
    sql`INSERT INTO ${named(newTable.name)} (${columns}) SELECT ${columns} FROM ${named(table.name)}
      WHERE ${sql.id(table.key[0] ?? '')} IN (${sql.join(ids)})`,
  ];
}

/**
 * Computes the tables that a backfill of the stored bodies would create, and writes nothing. `tableNames` are those of
 * other tables and views.
 */
async function shapeOfBodies(context: LoadContext, tableNames: ReadonlySet<string>): Promise<ResourceShape> {
  const profile = lenientProfile(context.profile);
  const exact = new Set<string>();
  let shape = initialShape(context.owned.resource, profile);
  for await (const records of readStoredRecords(context)) {
    let page = shapeRecords({ shape, profile, records, tableNames });
    const withDigits = withNumeric(page.shape, numericColumns(shape, page.shape, exact));
    if (withDigits !== page.shape) page = shapeRecords({ shape: withDigits, profile, records, tableNames });
    for (const rows of page.rows) noteExact(rows, exact);
    ({ shape } = page);
  }
  return shape;
}

/** Returns the columns that must become numeric: a double would lose digits of the integers that they have (`exact`). */
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
 * Reads all records with a stored body, also deleted ones, in the order of their ids and by the current profile. Throws
 * the signal's reason between two pages.
 */
async function* readStoredRecords(context: LoadContext): AsyncGenerator<readonly StoredRecord[]> {
  const { warehouse, owned, profile, signal } = context;
  const read = bodyReader(profile);
  for (let after = ''; ;) {
    const bodies = await lastBodiesAfter(warehouse.own, owned.resource, after, RECORDS_PER_PAGE);
    const last = bodies.at(-1);
    if (last === undefined) return;
    yield bodies.map(({ id, body }) => Object.assign(read(body), { key: id }));
    after = last.id;
    // SQLite blocks the event loop: a signal would be handled only after the last page.
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
