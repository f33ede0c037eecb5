import { messageOf, SyncError } from '../../model/errors.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { storesOf, type FilesSettings } from '../../settings/file-stores.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { countFiles } from '../../state/files/shown-files.ts';
import { contentsAmong, filesShowing } from '../../state/files/file-contents.ts';
import { readViews } from '../../state/view-catalog.ts';
import { planKeys } from '../../views/key-plan.ts';
import { FILE_STATUSES } from '../../warehouse/file-rows.ts';
import { ownColumns } from '../../warehouse/own-columns.ts';
import type { SnapshotReader } from '../../warehouse/snapshot-reader.ts';
import { compareStore } from '../files/compare-store.ts';
import type { FilesReport } from './report.ts';
import type { VerifyContext } from './verify-context.ts';

/** SQLite declares these types as text. */
const DECLARED_AS_TEXT: ReadonlySet<ColumnType> = new Set(['numeric', 'json']);
/** A text may be too long for an index, and then has none. */
const ALWAYS_INDEXED: ReadonlySet<ColumnType> = new Set(['integer', 'date', 'timestamp', 'boolean', 'double']);

/**
 * Checks that the tables, views, indexes and the checkpoint of a resource are as recorded, and has the database check
 * itself. Returns false if the rows cannot be read.
 */
export async function checkStructure(context: VerifyContext, snapshot: SnapshotReader): Promise<boolean> {
  const { findings, shape } = context;
  const checkpoint = await readCheckpoint(snapshot.own, shape.resource).catch((error: unknown) => messageOf(error));
  if (checkpoint === null || typeof checkpoint === 'string')
    findings.add({ kind: 'checkpoint', id: null, detail: checkpoint ?? 'there is none' });
  await checkViews(context, snapshot);
  const before = findings.count;
  await checkTables(context, snapshot);
  const isReadable = findings.count === before;
  // Indexes are created at the end of the first complete scan.
  const isIndexed = typeof checkpoint === 'object' && (checkpoint?.last_success_at ?? null) !== null;
  if (isReadable && isIndexed) await checkIndexes(context, snapshot);
  const names = shape.tables.map(({ name }) => name);
  const { found } = await snapshot.damage(isReadable ? [...names, '_sync_versions'] : []);
  for (const detail of found) findings.add({ kind: 'database', id: null, detail });
  return isReadable;
}

async function checkTables({ findings, shape }: VerifyContext, snapshot: SnapshotReader): Promise<void> {
  for (const table of shape.tables) {
    const actual = await snapshot.columns(table.name);
    if (actual === null) {
      findings.add({ kind: 'table', id: null, fields: [table.name], detail: 'there is no such table' });
      continue;
    }
    const types = new Map(actual.map(({ name, type }) => [name, type]));
    const keys = table.key.map((name, at) => ({ name, type: at === 0 ? 'text' : 'integer' }) as const);
    for (const { name, type } of [...keys, ...ownColumns(table), ...table.columns]) {
      const found = types.get(name);
      if (found === type || (found === 'text' && DECLARED_AS_TEXT.has(type))) continue;
      const detail = found === undefined ? 'there is no such column' : `it is ${found}, not ${type}`;
      findings.add({ kind: 'table', id: null, fields: [`${table.name}.${name}`], detail });
    }
  }
}

/** Checks the views of this resource and those of the whole source. */
async function checkViews({ findings, shape }: VerifyContext, snapshot: SnapshotReader): Promise<void> {
  for (const [name, { view, columns }] of await readViews(snapshot.own)) {
    if (view.resource !== null && view.resource !== shape.resource) continue;
    const actual = new Set((await snapshot.columns(name))?.map((column) => column.name));
    const missing = columns
      .map(({ column_name }) => `${name}.${column_name}`)
      .filter((each) => !actual.has(each.slice(name.length + 1)));
    if (missing.length > 0) findings.add({ kind: 'view', id: null, fields: actual.size === 0 ? [name] : missing });
  }
}

async function checkIndexes(
  { shape, profile, whole, findings }: VerifyContext,
  snapshot: SnapshotReader,
): Promise<void> {
  const { indexes } = planKeys(shape, profile, whole.relations, await readShapes(snapshot.own));
  const wanted = indexes.filter(({ table, column }) => {
    const type = table.columns.find(({ name }) => name === column)?.type;
    return type !== undefined && ALWAYS_INDEXED.has(type);
  });
  for (const name of await snapshot.missingIndexes(wanted)) findings.add({ kind: 'index', id: null, fields: [name] });
}

/**
 * Checks that the contents of a resource's files are in their stores with their sizes; `files verify` also reads them.
 * Null if the resource keeps no files.
 */
export async function checkFiles(context: VerifyContext, settings: FilesSettings): Promise<FilesReport | null> {
  const { clock, signal, findings, shape, warehouse } = context;
  const kept = settings.kept[shape.resource];
  if (kept === undefined) return null;
  const report: FilesReport = { shown: { waiting: 0, stored: 0, failed: 0, refused: 0, gone: 0 }, read: 0, differ: 0 };
  for (const { resource, status, files } of await countFiles(warehouse.own)) {
    if (resource === shape.resource && FILE_STATUSES.includes(status)) report.shown[status] += files;
  }
  const stores = openStores({ clock, signal, isMade: false });
  try {
    for (const address of storesOf({ kept: { [shape.resource]: kept } })) {
      const store = await stores.at(address, settings);
      for await (const content of compareStore(warehouse, store, { resources: [shape.resource] })) {
        signal.throwIfAborted();
        const { sha256, reference } = content;
        if (reference === null) continue;
        report.read += 1;
        // The content may have come or gone since it was looked up.
        const object = content.object ?? (await store.head(sha256));
        if (object?.bytes === reference.bytes) continue;
        const names = (await filesShowing(warehouse.own, store.name, sha256, 1)).map(
          ({ resource, record_id, field }) => `${resource} ${record_id} ${field}`,
        );
        if ((await contentsAmong(warehouse.own, '_sync_files', store.name, [sha256])).size === 0) continue;
        report.differ += 1;
        const fault = object === null ? 'not in its store' : 'of another size than it was stored with';
        const detail = `${fault}: content-sync files verify --repair has it fetched again`;
        findings.add({ kind: 'file', id: null, fields: names, detail });
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof SyncError)) throw error;
    // A store that cannot be used has nothing; one that did not respond may.
    if (error.recovery === 'retry') findings.notCompared.add(`files: ${messageOf(error)}`);
    else findings.add({ kind: 'file', id: null, detail: messageOf(error) });
  } finally {
    await stores.close();
  }
  return report;
}
