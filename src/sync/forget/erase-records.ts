import type { Warehouse } from '../../database/warehouse.ts';
import { type CompiledQuery, sql } from 'kysely';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { forgetSeen, NO_SCAN, readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import { deleteFilesOf } from '../../database/state/files.ts';
import { type ForgetRequest, noteForgotten, unerased } from '../../database/state/forgotten.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { countOpenRejects } from '../../database/state/rejects.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import {
  countTraces,
  idPlaces,
  type KeyedReject,
  NO_TRACES,
  rejectsOf,
  rowsAt,
  traceEraser,
  valuesIn,
} from './traces.ts';

/** Records per transaction. */
const RECORDS_PER_STEP = 50;

/**
 * Erases the records that an operator has named, as the owner of the resource, so that no other process writes them
 * meanwhile. An interrupted erasure resumes. Throws `SyncError('lease_held')` if another process owns the resource: then
 * that process does it, if it is a `serve`.
 */
export function eraseForgotten(source: SourceContext, resource: string, signal: AbortSignal): Promise<number> {
  return withResource(source, resource, signal, (context) =>
    context.owned.takeTurn(async () => {
      const requests = await unerased(context.warehouse.own, resource);
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

/** Rows, versions and all else that the warehouse has of some records, in one transaction. */
async function eraseStep(context: ResourceContext, requests: readonly ForgetRequest[]): Promise<void> {
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const { resource, shape } = owned;
  const ids = requests.map(({ record_id }) => record_id);
  const place = { warehouse, resource, shape, profile };
  const counts = await countTraces(place, ids);
  const rejects = await rejectsOf(place, new Set(ids));
  const values = valuesIn([...(await bodiesOf(context, ids)), ...rejects.map(({ body }) => body)]);
  const erased = traceEraser(ids, values);
  const at = timestampText(clock.now());
  const mentions = await eraseMentions(warehouse, resource, erased);
  await warehouse.apply(
    [
      ...idPlaces(place)
        .filter(({ what }) => what !== 'files')
        .map((each) => sql`DELETE ${rowsAt(place, each, sql`IN (${sql.join(ids)})`)}`.compile(own)),
      // What no other record shows of their contents is then found by `eraseUnnamed`.
      ...deleteFilesOf(own, resource, ids),
      ...rejects.map((reject) => eraseReject(context, reject)),
      ...(await erasePlaces(context, ids, erased)),
      ...mentions,
      ...requests.map((request) =>
        noteForgotten(own, request, {
          erased_at: at,
          counts: JSON.stringify(counts.get(request.record_id) ?? NO_TRACES),
        }),
      ),
    ],
    owned.lease(),
  );
  owned.openRejects = await countOpenRejects(own, resource);
}

async function bodiesOf({ warehouse, owned }: ResourceContext, ids: readonly string[]): Promise<string[]> {
  const versions = warehouse.own.selectFrom('_sync_versions').select(['body', 'source_text']);
  const rows = await versions.where('resource', '=', owned.resource).where('id', 'in', ids).execute();
  return rows.flatMap(({ body, source_text }) => [body, source_text].filter((text) => text !== null));
}

function eraseReject({ warehouse, owned }: ResourceContext, { hash, reason }: KeyedReject): CompiledQuery {
  const rejects = warehouse.own.deleteFrom('_sync_rejects').where('resource', '=', owned.resource);
  return rejects.where('hash', '=', hash).where('reason', '=', reason).compile();
}

/** The positions of scans and feeds that contain an erased id. */
async function erasePlaces(
  { warehouse: { own }, owned: { resource } }: ResourceContext,
  ids: readonly string[],
  erased: (text: string) => string,
): Promise<CompiledQuery[]> {
  const names = (text: string | null): boolean => text !== null && (ids.includes(text) || erased(text) !== text);
  const statements: CompiledQuery[] = [];
  const checkpoint = await readCheckpoint(own, resource);
  const changed = checkpoint === null ? null : withoutIds(checkpoint, names);
  if (changed !== null) statements.push(saveCheckpoint(own, changed));
  if (changed?.walk_mode === null && checkpoint?.walk_mode !== null) statements.push(forgetSeen(own, resource));
  const feeds = await own.selectFrom('_sync_feeds').selectAll().where('resource', '=', resource).execute();
  for (const { feed, cursor, page, fresh } of feeds) {
    if (![cursor, page, fresh].some(names)) continue;
    const left = { cursor: names(cursor) ? null : cursor, page: null, fresh: names(fresh) ? null : fresh };
    const row = own.updateTable('_sync_feeds').set(left).where('resource', '=', resource).where('feed', '=', feed);
    statements.push(row.compile());
  }
  const reshapes = own.updateTable('_sync_reshapes').set({ done_up_to: '' }).where('resource', '=', resource);
  return [...statements, reshapes.where('done_up_to', 'in', ids).compile()];
}

/** Null if it names no erased id. A scan whose next page is named by an id begins again. */
function withoutIds(row: CheckpointRow, names: (text: string | null) => boolean): CheckpointRow | null {
  const { cursor_key, walk_high_key, walk_position } = row;
  if (![cursor_key, walk_high_key, walk_position].some(names)) return null;
  return {
    ...row,
    cursor_key: names(cursor_key) ? null : cursor_key,
    walk_high_key: names(walk_high_key) ? null : walk_high_key,
    ...(names(walk_position) ? NO_SCAN : {}),
  };
}

/** Own tables whose texts may quote a record. */
const QUOTING = ['_sync_runs', '_sync_notices', '_sync_verifications', '_sync_alerts', '_sync_pauses'] as const;
/** Columns that tell rows apart, or that other tables refer to. */
const KEYS: ReadonlySet<string> = new Set(['run_id', 'resource', 'id', 'name', 'version', 'kind']);

/**
 * The statements that take erased records out of what is said elsewhere: errors and warnings of runs, certificates,
 * and the examples of columns that earlier versions took from records.
 */
async function eraseMentions(
  warehouse: Warehouse,
  resource: string,
  erased: (text: string) => string,
): Promise<CompiledQuery[]> {
  const { own } = warehouse;
  const texts = await Promise.all(QUOTING.map((table) => eraseTexts(warehouse, table, erased)));
  const examples = own.updateTable('_sync_columns').set({ example: null }).where('resource', '=', resource);
  return [...texts.flat(), examples.compile()];
}

async function eraseTexts(
  { own, rows: { named } }: Warehouse,
  table: string,
  erased: (text: string) => string,
): Promise<CompiledQuery[]> {
  const { rows } = await sql<Record<string, unknown>>`SELECT * FROM ${named(table)}`.execute(own);
  const changed = new Map<string, CompiledQuery>();
  for (const row of rows) {
    for (const [column, value] of Object.entries(row)) {
      if (KEYS.has(column) || typeof value !== 'string') continue;
      const left = erased(value);
      if (left === value) continue;
      const name = sql.id(column);
      const update = sql`UPDATE ${named(table)} SET ${name} = ${left} WHERE ${name} = ${value}`;
      changed.set(JSON.stringify([column, value]), update.compile(own));
    }
  }
  return [...changed.values()];
}
