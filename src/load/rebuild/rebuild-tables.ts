import { sql, type CompiledQuery } from 'kysely';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { textHash } from '../../shape/records/fingerprint.ts';
import { shapeChanges } from '../../shape/evolve-shape.ts';
import { shapeRecords } from '../../shape/shape-page.ts';
import { replaceShape } from '../../state/column-catalog.ts';
import { saveReshape } from '../../state/reshapes.ts';
import { readViews, viewColumns } from '../../state/view-catalog.ts';
import { GROWTH_OUTDATED } from '../../warehouse/warehouse.ts';
import { SyncError } from '../../model/errors.ts';
import { viewGrowth } from '../grow-views.ts';
import type { LoadContext } from '../load-context.ts';
import { shapeOf } from '../prepare-page.ts';
import { lenient, shapeOfBodies } from './shape-of-bodies.ts';
import { storedPages } from './stored-pages.ts';

/** Tables as they are filled beside those that are read. */
const BESIDE = '_sync_beside_';

/** The effect of a rebuild, as counts. */
export interface Rebuilt {
  /** Records with rows in the tables. */
  records: number;
  /** Those of which no body is kept: they have the values that stood in columns which stay as they were. */
  bodiless: number;
  tables: string[];
  /** Columns of the tables from before that are no more, as `table.column`. */
  gone: string[];
  /** Columns that are new or of another type. */
  changed: string[];
}

/**
 * Makes the tables of a resource anew from the stored bodies, beside those that stand, and puts them in their place in
 * one transaction, with the views on them: readers see the old ones or the new ones. Stopped before that, everything is as
 * it was, and the next call begins again. To be called in a turn. `statements` go with the change.
 */
export async function rebuildTables(
  context: LoadContext,
  statements: (after: ResourceShape) => readonly CompiledQuery[],
): Promise<Rebuilt> {
  const { warehouse, owned } = context;
  const before = shapeOf(owned);
  const after = await shapeOfBodies(context, await takenNames(context, before));
  const beside = asideOf(after);
  await warehouse.stageTables({
    lease: owned.lease(),
    shape: after,
    names: namesOf(beside, after),
    references: new Set(Object.keys(context.whole.relations)),
  });
  await fill(context, after, beside);
  const bodiless = await carryOver(context, { before, after, beside });
  await swap(context, { before, after, beside }, statements(after));
  owned.shape = after;
  const root = after.tables[0]?.name ?? owned.resource;
  return {
    records: await warehouse.countAll(root),
    bodiless,
    tables: after.tables.map(({ name }) => name),
    ...differences(before, after),
  };
}

interface Rebuild {
  before: ResourceShape;
  after: ResourceShape;
  /** The same tables under the names that they are filled under. */
  beside: ResourceShape;
}

async function takenNames({ warehouse, owned, whole }: LoadContext, before: ResourceShape): Promise<Set<string>> {
  const taken = await warehouse.tableNames();
  for (const { name } of before.tables) taken.delete(name);
  const others = Object.keys(whole.resources).filter((other) => other !== owned.resource);
  for (const other of others) for (const name of [other, `${other}_live`, `${other}_history`]) taken.add(name);
  return taken;
}

/** A name may be as long as names get. */
function asideOf(shape: ResourceShape): ResourceShape {
  const name = (table: TableShape): string => `${BESIDE}${textHash(table.name).slice(0, 24)}`;
  return { ...shape, tables: shape.tables.map((table) => ({ ...table, name: name(table) })) };
}

function namesOf({ tables }: ResourceShape, after: ResourceShape): Map<string, string> {
  return new Map(after.tables.map(({ name }, at) => [name, tables[at]?.name ?? name]));
}

async function fill(context: LoadContext, after: ResourceShape, beside: ResourceShape): Promise<void> {
  const { warehouse, owned, clock } = context;
  const profile = lenient(context);
  const requestedAt = timestampText(clock.now());
  const names = new Map(after.tables.map(({ name }, at) => [name, beside.tables[at]]));
  for await (const records of storedPages(context)) {
    const shaped = shapeRecords({ shape: after, profile, records });
    if (shaped.shape !== after) throw new Error('a body that the tables were made for does not fit them');
    const aside = new Set(shaped.rejects.map(({ index }) => index));
    const written = records.filter((_, index) => !aside.has(index));
    const page = warehouse.prepare({
      resource: owned.resource,
      history: 'none',
      requestedAt,
      rows: shaped.rows.map((rows) => ({ ...rows, table: names.get(rows.table.name) ?? rows.table })),
      children: beside.tables.slice(1),
      records: written.map(({ key, bytes }) => ({ key, bytes, version: 1, hash: textHash(bytes) })),
    });
    await warehouse.commit({ page, lease: owned.lease(), statements: [] });
  }
}

/** Our own columns stay as they were, and so do records without a body, as far as the tables still have their columns. */
async function carryOver({ warehouse, owned }: LoadContext, { before, after, beside }: Rebuild): Promise<number> {
  const { own, named } = warehouse;
  const [old, made] = [before.tables[0], beside.tables[0]];
  const [oldKey, key] = [old?.key[0], made?.key[0]];
  if (old === undefined || made === undefined || oldKey === undefined || key === undefined) return 0;
  const ofOld = (column: string) =>
    sql`(SELECT o.${sql.id(column)} FROM ${named(old.name)} AS o WHERE o.${sql.id(oldKey)} = ${named(made.name)}.${sql.id(key)})`;
  const lacking = sql`${sql.id(oldKey)} NOT IN (SELECT ${sql.id(key)} FROM ${named(made.name)})`;
  const { rows } = await sql<{
    id: string;
  }>`SELECT ${sql.id(oldKey)} AS "id" FROM ${named(old.name)} WHERE ${lacking}`.execute(own);
  const stamps = ['_version', '_synced_at', '_deleted_at'] as const;
  const set = [...stamps, ...(after.tables.length > 0 ? (['_hash'] as const) : [])];
  const list = set.map((column) => sql`${sql.id(column)} = ${ofOld(column)}`);
  const statements = [
    sql`DELETE FROM ${named(made.name)} WHERE ${sql.id(key)} NOT IN (SELECT ${sql.id(oldKey)} FROM ${named(old.name)})`,
    sql`UPDATE ${named(made.name)} SET ${sql.join(list)}`,
    ...(rows.length === 0
      ? []
      : carried(
          before,
          beside,
          after,
          named,
          rows.map(({ id }) => id),
        )),
    ...beside.tables.slice(1).map(
      (child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} NOT IN
        (SELECT ${sql.id(key)} FROM ${named(made.name)} WHERE "_deleted_at" IS NULL)`,
    ),
  ];
  await warehouse.apply(
    statements.map((statement) => statement.compile(own)),
    owned.lease(),
  );
  return rows.length;
}

/** Rows of records without a body, in those columns that stay under their name and type. */
function carried(
  before: ResourceShape,
  beside: ResourceShape,
  after: ResourceShape,
  named: LoadContext['warehouse']['named'],
  ids: readonly string[],
) {
  return after.tables.flatMap((table, at) => {
    const old = before.tables.find(({ name }) => name === table.name);
    const made = beside.tables[at];
    if (old === undefined || made === undefined || old.key.join() !== table.key.join()) return [];
    const same = table.columns.filter(({ name, type }) =>
      old.columns.some((one) => one.name === name && one.type === type),
    );
    const own = table.path.length === 0 ? ['_hash', '_version', '_synced_at', '_deleted_at'] : [];
    const columns = sql.join([...table.key, ...own, ...same.map(({ name }) => name)].map((name) => sql.id(name)));
    const parts = Array.from({ length: Math.ceil(ids.length / IDS_PER_STATEMENT) }, (_, part) =>
      ids.slice(part * IDS_PER_STATEMENT, (part + 1) * IDS_PER_STATEMENT),
    );
    return parts.map(
      (part) => sql`INSERT INTO ${named(made.name)} (${columns}) SELECT ${columns} FROM ${named(table.name)}
        WHERE ${sql.id(table.key[0] ?? '')} IN (${sql.join(part)})`,
    );
  });
}

const IDS_PER_STATEMENT = 1_000;

/** Planned again where another resource has changed its own tables meanwhile. */
async function swap(
  context: LoadContext,
  { before, after, beside }: Rebuild,
  statements: readonly CompiledQuery[],
): Promise<void> {
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const at = timestampText(clock.now());
  for (;;) {
    // Views show the types that they show now: what stands on them stays. Where they may, they change behind this.
    const held = new Set((await readViews(own)).keys());
    const { views, comments, claim, statements: planned } = await viewGrowth(context, after, held);
    try {
      await warehouse.swapTables({
        lease: owned.lease(),
        shape: after,
        names: namesOf(beside, after),
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
  const names = ({ tables }: ResourceShape): Set<string> =>
    new Set(tables.flatMap((table) => table.columns.map(({ name }) => `${table.name}.${name}`)));
  const left = names(after);
  const types = new Map(
    before.tables.flatMap((table) => table.columns.map(({ name, type }) => [`${table.name}.${name}`, type])),
  );
  const all = shapeChanges({ resource: after.resource, tables: [] }, after);
  const changed = all.filter(({ table, column }) => types.get(`${table}.${column.name}`) !== column.type);
  return {
    gone: [...names(before)].filter((name) => !left.has(name)),
    changed: changed.map(({ table, column }) => `${table}.${column.name}`),
  };
}
