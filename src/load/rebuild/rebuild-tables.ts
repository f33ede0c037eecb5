import type { CompiledQuery } from 'kysely';
import type { ResourceShape, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { textHash } from '../../shape/records/fingerprint.ts';
import { shapeChanges } from '../../shape/evolve-shape.ts';
import { shapeRecords } from '../../shape/shape-page.ts';
import { replaceShape } from '../../state/column-catalog.ts';
import { saveReshape } from '../../state/checkpoints.ts';
import { readViews, viewColumns } from '../../state/view-catalog.ts';
import { GROWTH_OUTDATED } from '../../warehouse/warehouse.ts';
import { SyncError } from '../../model/errors.ts';
import { coverRows } from '../grow-calendar.ts';
import { takenNames } from '../grow-shape.ts';
import { viewGrowth } from '../grow-views.ts';
import type { LoadContext } from '../load-context.ts';
import { shapeOf } from '../prepare-page.ts';
import { carryOver, keepStamps, type Rebuild } from './carry-over.ts';
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
  await fill(context, { before, after, beside });
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

/** A name may be as long as names get. */
function asideOf(shape: ResourceShape): ResourceShape {
  return { ...shape, tables: shape.tables.map(tableAside) };
}

function tableAside(table: TableShape): TableShape {
  return { ...table, name: `${BESIDE}${textHash(table.name).slice(0, 24)}` };
}

function namesOf({ tables }: ResourceShape, after: ResourceShape): Map<string, string> {
  return new Map(after.tables.map(({ name }, at) => [name, tables[at]?.name ?? name]));
}

async function fill(context: LoadContext, rebuild: Rebuild): Promise<void> {
  const { after, beside } = rebuild;
  const { warehouse, owned, clock } = context;
  const profile = lenient(context);
  const requestedAt = timestampText(clock.now());
  const names = new Map(after.tables.map(({ name }, at) => [name, beside.tables[at]]));
  for await (const records of storedPages(context)) {
    const shaped = shapeRecords({ shape: after, profile, records });
    if (shaped.shape !== after) throw new Error('a body that the tables were made for does not fit them');
    const aside = new Set(shaped.rejects.map(({ index }) => index));
    const written = records.filter((_, index) => !aside.has(index));
    const page = {
      resource: owned.resource,
      history: 'none',
      requestedAt,
      rows: shaped.rows.map(({ table, width, cells }) => ({ table: names.get(table.name) ?? table, width, cells })),
      children: beside.tables.slice(1),
      records: written.map(({ key, bytes }) => ({ key, bytes, version: 1, hash: textHash(bytes) })),
    } as const;
    const keys = written.map(({ key }) => key);
    await coverRows(context, shaped.rows);
    await warehouse.commit({ rows: page, lease: owned.lease(), statements: keepStamps(context, rebuild, keys) });
  }
}

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
    const { views, comments, claim, statements: planned } = await viewGrowth(context, after, { held });
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
  const left = columnNames(after);
  const types = new Map(
    before.tables.flatMap((table) => table.columns.map(({ name, type }) => [`${table.name}.${name}`, type])),
  );
  const all = shapeChanges({ resource: after.resource, tables: [] }, after);
  const changed = all.filter(({ table, column }) => types.get(`${table}.${column.name}`) !== column.type);
  return {
    gone: [...columnNames(before)].filter((name) => !left.has(name)),
    changed: changed.map(({ table, column }) => `${table}.${column.name}`),
  };
}

function columnNames({ tables }: ResourceShape): Set<string> {
  return new Set(tables.flatMap((table) => table.columns.map(({ name }) => `${table.name}.${name}`)));
}
