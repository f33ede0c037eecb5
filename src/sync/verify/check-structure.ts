import type { Kysely } from 'kysely';
import { messageOf } from '../../model/errors.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { readViews } from '../../state/view-catalog.ts';
import { planKeys } from '../../views/key-plan.ts';
import { ownColumns } from '../../warehouse/own-columns.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import type { SnapshotReader } from '../../warehouse/snapshot-reader.ts';
import type { VerifyContext } from './verify-context.ts';

/** Types that a database may declare as another: SQLite keeps both as texts. */
const ALSO_TEXT: ReadonlySet<ColumnType> = new Set(['numeric', 'json']);
/** A text may be longer than an index holds: then it has none. */
const INDEXED: ReadonlySet<ColumnType> = new Set(['integer', 'date', 'timestamp', 'boolean', 'double']);

/**
 * Compares what is remembered of a resource's tables, views and walk with what is there. Returns false if its rows cannot
 * be read by it.
 */
export async function checkStructure(context: VerifyContext, snapshot: SnapshotReader): Promise<boolean> {
  const { findings } = context;
  await checkWalk(context, snapshot.own);
  await checkViews(context, snapshot);
  const before = findings.count;
  await checkTables(context, snapshot);
  const isReadable = findings.count === before;
  if (isReadable) await checkIndexes(context, snapshot);
  const names = context.shape.tables.map(({ name }) => name);
  const { by, found } = await snapshot.damage(isReadable ? [...names, '_sync_versions'] : []);
  for (const detail of found) findings.add({ kind: 'database', id: null, detail });
  findings.checks.push(
    'tables and columns are those of the catalogue; views, indexes and the checkpoint are there',
    `the database finds nothing broken (${by})`,
  );
  return isReadable;
}

async function checkWalk({ findings, shape }: VerifyContext, own: Kysely<OwnTables>): Promise<void> {
  try {
    const checkpoint = await readCheckpoint(own, shape.resource);
    if (checkpoint === null) findings.add({ kind: 'checkpoint', id: null, detail: 'there is none' });
  } catch (error) {
    findings.add({ kind: 'checkpoint', id: null, detail: messageOf(error) });
  }
}

async function checkTables({ findings, shape }: VerifyContext, snapshot: SnapshotReader): Promise<void> {
  for (const table of shape.tables) {
    const standing = await snapshot.columns(table.name);
    if (standing === null) {
      findings.add({ kind: 'table', id: null, fields: [table.name], detail: 'there is no such table' });
      continue;
    }
    const types = new Map(standing.map(({ name, type }) => [name, type]));
    const keys = table.key.map((name, at) => ({ name, type: at === 0 ? 'text' : 'integer' }) as const);
    for (const { name, type } of [...keys, ...ownColumns(table), ...table.columns]) {
      const actual = types.get(name);
      const isSame = actual === type || (actual === 'text' && ALSO_TEXT.has(type));
      const detail = actual === undefined ? 'there is no such column' : `it is ${actual}, not ${type}`;
      if (!isSame) findings.add({ kind: 'table', id: null, fields: [`${table.name}.${name}`], detail });
    }
  }
}

/** The views of this resource, and those of the whole source. */
async function checkViews({ findings, shape }: VerifyContext, snapshot: SnapshotReader): Promise<void> {
  for (const [name, { view, columns }] of await readViews(snapshot.own)) {
    if (view.resource !== null && view.resource !== shape.resource) continue;
    const standing = await snapshot.columns(name);
    if (standing === null) {
      findings.add({ kind: 'view', id: null, fields: [name] });
      continue;
    }
    const names = new Set(standing.map((column) => column.name));
    for (const { column_name } of columns) {
      if (!names.has(column_name)) findings.add({ kind: 'view', id: null, fields: [`${name}.${column_name}`] });
    }
  }
}

/** Indexes are made at the end of a walk: before the first one there may be none. */
async function checkIndexes(context: VerifyContext, snapshot: SnapshotReader): Promise<void> {
  const { shape, profile, whole, findings } = context;
  const checkpoint = await readCheckpoint(snapshot.own, shape.resource).catch(() => null);
  if ((checkpoint?.last_success_at ?? null) === null) return;
  const { indexes } = planKeys(shape, profile, whole.relations, await readShapes(snapshot.own));
  const typed = indexes.filter(({ table, column }) => {
    const type = table.columns.find(({ name }) => name === column)?.type;
    return type !== undefined && INDEXED.has(type);
  });
  for (const name of await snapshot.missingIndexes(typed)) findings.add({ kind: 'index', id: null, fields: [name] });
}
