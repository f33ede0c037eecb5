// Erases the records that an operator has named with `content-sync forget`: rows, versions, files, and everything in stored
// messages and scan positions that quotes them (`eraseForgotten`).
import { type CompiledQuery, sql } from 'kysely';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { deleteSeenPages, NO_SCAN, readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import { deleteFilesOfRecords } from '../../database/state/files.ts';
import { type ForgetRequest, unerasedRecords, updateErasure } from '../../database/state/forgotten.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { countOpenRejects } from '../../database/state/stored-rows.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { storedTexts } from '../../pagination/page-styles/page-position.ts';
import { type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import { collectValues, createTextEraser, ERASED, fromTraces, readRejects, traceTables } from './traces.ts';

const RECORDS_PER_STEP = 50;

/**
 * Erases the records that an operator has named from the warehouse, as the owner of the resource, so that no other
 * process writes them meanwhile. An interrupted erasure resumes. Throws `SyncError('lease_held')` if another process
 * owns the resource: then that process erases them, if it is a `serve`.
 */
export function eraseForgotten(source: SourceContext, resource: string, signal: AbortSignal): Promise<number> {
  return withResource(source, resource, signal, (context) =>
    context.owned.runAlone(async () => {
      const requests = await unerasedRecords(context.warehouse.own, resource);
      if (requests.length === 0) return 0;
      // From here on these records are dropped when they are loaded.
      await context.owned.rereadForgotten();
      for (const part of inParts(requests, RECORDS_PER_STEP)) {
        await eraseStep(context, part);
        signal.throwIfAborted();
      }
      return requests.length;
    }),
  );
}

/** Erases all traces of some records in one transaction. */
async function eraseStep(context: ResourceContext, requests: readonly ForgetRequest[]): Promise<void> {
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const { resource, shape } = owned;
  const traced = { warehouse, resource, shape, profile };
  const ids = requests.map(({ record_id }) => record_id);
  const rejects = await readRejects(traced, ids);
  const values = collectValues([...(await readBodies(context, ids)), ...rejects.map(({ body }) => body)]);
  const erase = createTextEraser(ids, values);
  const erased_at = timestampText(clock.now());
  const tables = traceTables(traced).filter(({ what }) => what !== 'files');
  const examples = own.updateTable('_sync_columns').set({ example: null }).where('resource', '=', resource);
  const deleteReject = own.deleteFrom('_sync_rejects').where('resource', '=', resource);
  await owned.commit([
    ...tables.map((table) => sql`DELETE ${fromTraces(traced, table, sql`IN (${sql.join(ids)})`)}`.compile(own)),
    // `eraseUnreferenced` finds the contents that no other record has.
    ...deleteFilesOfRecords(own, resource, ids),
    ...rejects.map(({ hash, reason }) => deleteReject.where('hash', '=', hash).where('reason', '=', reason).compile()),
    ...(await erasePositions(context, ids, erase)),
    ...(await Promise.all(QUOTING_TABLES.map((table) => eraseQuotes(warehouse, table, erase)))).flat(),
    examples.compile(),
    ...requests.map((request) => updateErasure(own, request, { erased_at })),
  ]);
  owned.openRejects = await countOpenRejects(own, resource);
}

/** Reads all stored bodies and source texts of records. */
async function readBodies({ warehouse, owned }: ResourceContext, ids: readonly string[]): Promise<string[]> {
  const versions = warehouse.own.selectFrom('_sync_versions').select(['body', 'source_text']);
  const rows = await versions.where('resource', '=', owned.resource).where('id', 'in', ids).execute();
  return rows.flatMap(({ body, source_text }) => [body, source_text].filter((text) => text !== null));
}

/** Returns the statements that erase the positions of scans and feeds that contain an erased id. */
async function erasePositions(
  { warehouse: { own }, owned: { resource } }: ResourceContext,
  ids: readonly string[],
  erase: (text: string) => string,
): Promise<CompiledQuery[]> {
  const quotesId = (text: string): boolean => ids.includes(text) || erase(text) !== text;
  // In a position, ids may be numbers, or encoded.
  const hasId = (text: string | null): boolean => text !== null && [text, ...storedTexts(text)].some(quotesId);
  const statements: CompiledQuery[] = [];
  const checkpoint = await readCheckpoint(own, resource);
  const changed = checkpoint === null ? null : withoutIds(checkpoint, hasId, ids);
  if (changed !== null) statements.push(saveCheckpoint(own, changed));
  if (changed?.walk_mode === null && checkpoint?.walk_mode !== null) statements.push(deleteSeenPages(own, resource));
  const feeds = await own.selectFrom('_sync_feeds').selectAll().where('resource', '=', resource).execute();
  for (const { feed, cursor, page, fresh } of feeds) {
    if (![cursor, page, fresh].some(hasId)) continue;
    const without = { cursor: hasId(cursor) ? null : cursor, page: null, fresh: hasId(fresh) ? null : fresh };
    const update = own.updateTable('_sync_feeds').set(without).where('resource', '=', resource);
    statements.push(update.where('feed', '=', feed).compile());
  }
  const restartReshape = own.updateTable('_sync_reshapes').set({ done_up_to: '' }).where('resource', '=', resource);
  return [...statements, restartReshape.where('done_up_to', 'in', ids).compile()];
}

/** Returns the checkpoint without erased ids; null if it has none. A scan whose next page is named by an id restarts. */
function withoutIds(
  row: CheckpointRow,
  hasId: (text: string | null) => boolean,
  ids: readonly string[],
): CheckpointRow | null {
  const { cursor_key, walk_high_key, walk_position } = row;
  const filter_doubt = withoutKeys(row.filter_doubt, ids);
  if (filter_doubt === row.filter_doubt && ![cursor_key, walk_high_key, walk_position].some(hasId)) return null;
  return {
    ...row,
    filter_doubt,
    cursor_key: hasId(cursor_key) ? null : cursor_key,
    walk_high_key: hasId(walk_high_key) ? null : walk_high_key,
    ...(hasId(walk_position) ? NO_SCAN : {}),
  };
}

/**
 * Replaces erased keys in the question that a filter has failed (see `filter/verify-filter.ts`). No record has the new key,
 * so the filter cannot answer the question by it, and stays untrusted.
 */
function withoutKeys(question: string | null, ids: readonly string[]): string | null {
  const erased = new Set<unknown>(ids);
  return question && JSON.stringify(JSON.parse(question), (_, value: unknown) => (erased.has(value) ? ERASED : value));
}

/** Internal tables whose texts may quote a record, such as errors and warnings of runs. */
const QUOTING_TABLES = ['_sync_runs', '_sync_notices', '_sync_verifications', '_sync_alerts', '_sync_pauses'] as const;
/** Columns of keys, or that other tables refer to. */
const KEY_COLUMNS: ReadonlySet<string> = new Set(['run_id', 'resource', 'id', 'name', 'version', 'kind']);

/** Returns the statements that erase quotes of records from the texts of a table. */
async function eraseQuotes(
  { own, rows: { named } }: Warehouse,
  table: string,
  erase: (text: string) => string,
): Promise<CompiledQuery[]> {
  const { rows } = await sql<Record<string, unknown>>`SELECT * FROM ${named(table)}`.execute(own);
  const changed = new Map<string, CompiledQuery>();
  for (const row of rows) {
    for (const [column, value] of Object.entries(row)) {
      if (KEY_COLUMNS.has(column) || typeof value !== 'string') continue;
      const cleaned = erase(value);
      if (cleaned === value) continue;
      const name = sql.id(column);
      const update = sql`UPDATE ${named(table)} SET ${name} = ${cleaned} WHERE ${name} = ${value}`;
      changed.set(JSON.stringify([column, value]), update.compile(own));
    }
  }
  return [...changed.values()];
}
