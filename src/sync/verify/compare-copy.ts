import { sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { VersionRow } from '../../database/own-tables.ts';
import type { SnapshotReader } from '../../database/snapshot-reader.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { readShapes, readViews } from '../../database/state/catalog.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { ownColumns } from '../../database/table-layout.ts';
import { lenientProfile } from '../../load/grow-shape.ts';
import { messageOf } from '../../model/errors.ts';
import type { ColumnType, HistoryPolicy } from '../../model/vocabulary.ts';
import { comparedPart } from '../../rows/mask-fields.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { canonicalHash, textHash } from '../../rows/records/record-key.ts';
import { planKeys } from '../../views/key-plan.ts';
import {
  type CopiedPage,
  type CopiedRecord,
  differingFields,
  hashRows,
  readCopiedPages,
  rowsOfRecords,
} from './comparable-rows.ts';
import type { Difference } from './report.ts';
import type { VerifyContext } from './service-listing.ts';

/** A resource of the copy at one time. */
export interface CopySnapshot extends VerifyContext {
  snapshot: SnapshotReader;
  /** Called with each live row and a hash of its content; null if its body is missing. */
  onLiveRow?: ((key: string, content: string | null) => void) | undefined;
}

/** The bodies of this many records are in memory together. */
const RECORDS_PER_STEP = 50;
const IDS_PER_QUERY = 1_000;

type Version = Omit<VersionRow, 'resource' | 'source_text'>;

/** A hash of a record and of its rows: equal if service and copy have the same. */
export function hashContent(valueHash: string, rowsHash: string): string {
  return textHash(`${valueHash} ${rowsHash}`);
}

/**
 * Compares the copy with itself: rows and child rows with what the stored bodies give, and versions with each other and
 * with the rows.
 */
export async function compareCopy(copy: CopySnapshot): Promise<void> {
  const { snapshot, shape, profile, findings, signal, onLiveRow } = copy;
  const one = snapshot.own.selectFrom('_sync_versions').select('id').where('resource', '=', shape.resource).limit(1);
  const hasBodies = profile.history !== 'none' && (await one.execute()).length > 0;
  findings.notCompared.add(
    hasBodies
      ? 'cells of deleted rows, and of columns that a wider one has replaced'
      : `rows with stored bodies: ${profile.history === 'none' ? 'history: none keeps none' : 'there are none yet'}`,
  );
  for await (const page of readCopiedPages(snapshot, shape)) {
    signal.throwIfAborted();
    compareChildRows(copy, page, hasBodies);
    const records = [...page.records.values()];
    if (hasBodies) for (const part of inParts(records, RECORDS_PER_STEP)) await compareBodies(copy, part);
    else {
      for (const { key, hash, rows, isDeleted } of records)
        if (!isDeleted) onLiveRow?.(key, hashContent(hash, hashRows(rows)));
    }
  }
  if (hasBodies) await findVersionsWithoutRow(copy);
}

function compareChildRows({ findings }: CopySnapshot, { records, orphans }: CopiedPage, hasBodies: boolean): void {
  for (const record of records.values()) {
    const { key, isDeleted, rows } = record;
    findings.compared[isDeleted ? 'deleted_rows' : 'rows'] += 1;
    findings.compared.child_rows += rows.length - 1;
    if (isDeleted && rows.length > 1) findings.add({ kind: 'orphans', id: key, detail: 'its row is deleted' });
    else if (!hasBodies && hasGap(record)) findings.add({ kind: 'positions', id: key });
  }
  for (const { table, key } of orphans) findings.add({ kind: 'orphans', id: key, fields: [table] });
}

/** True if the positions of a list are not 0, 1, 2 and so on. */
function hasGap({ rows }: CopiedRecord): boolean {
  return rows.some(({ table, positions }, at) => {
    if (positions.length === 0) return false;
    const before = rows[at - 1];
    const isSameList =
      before?.table === table && positions.slice(0, -1).every((each, level) => each === before.positions[level]);
    return Number(positions.at(-1)) !== (isSameList ? Number(before.positions.at(-1)) + 1 : 0);
  });
}

async function compareBodies(copy: CopySnapshot, records: readonly CopiedRecord[]): Promise<void> {
  const { snapshot, shape, profile, findings, onLiveRow } = copy;
  const found = await snapshot.own
    .selectFrom('_sync_versions')
    .select(['id', 'version', 'valid_from', 'valid_to', 'op', 'hash', 'body'])
    .where('resource', '=', shape.resource)
    .where(
      'id',
      'in',
      records.map(({ key }) => key),
    )
    .execute();
  const versions = Map.groupBy(
    found.toSorted((a, b) => a.version - b.version),
    ({ id }) => id,
  );
  findings.compared.versions += found.length;
  const live = records.flatMap((record) => {
    const own = versions.get(record.key) ?? [];
    for (const difference of compareVersions(profile.history, record, own)) findings.add(difference);
    if (record.isDeleted) return [];
    const current = own.at(-1);
    const body = current?.op === 'upsert' ? current.body : null;
    const value = body === null ? undefined : parseBody(body, profile);
    if (body !== null && value !== undefined) return [{ record, value, bytes: Buffer.from(body), key: record.key }];
    if (body === null) onLiveRow?.(record.key, null);
    else findings.add({ kind: 'body', id: record.key, detail: 'it is not JSON' });
    return [];
  });
  const expected = rowsOfRecords(shape, lenientProfile(profile), live);
  findings.compared.bodies += live.length;
  for (const { key, value, record } of live) {
    const rowsHash = hashRows(record.rows);
    const rows = expected.get(key) ?? [];
    onLiveRow?.(key, hashContent(canonicalHash(value), rowsHash));
    if (hashRows(rows) !== rowsHash)
      findings.add({ kind: 'cells', id: key, fields: differingFields(rows, record.rows) });
  }
}

function parseBody(body: string, profile: ResourceProfile) {
  try {
    return comparedPart(profile.fields)(storedValue(body, profile));
  } catch {
    return undefined;
  }
}

async function findVersionsWithoutRow({ snapshot, shape, findings }: CopySnapshot): Promise<void> {
  const [table] = shape.tables;
  if (table === undefined) return;
  const rows = sql`SELECT 1 FROM ${sql.id(table.name)} AS t WHERE t.${sql.id(table.key[0] ?? '')} = v."id"`;
  for (let after = '', hasMore = true; hasMore;) {
    const query = sql<{ id: string }>`SELECT DISTINCT v."id" AS "id" FROM "_sync_versions" AS v
      WHERE v."resource" = ${shape.resource} AND v."id" > ${after} AND NOT EXISTS (${rows})
      ORDER BY 1 LIMIT ${IDS_PER_QUERY}`;
    const ids = (await query.execute(snapshot.own)).rows.map(({ id }) => id);
    for (const id of ids) findings.add({ kind: 'version_lost', id, detail: 'it has versions and no row' });
    hasMore = ids.length === IDS_PER_QUERY;
    after = ids.at(-1) ?? '';
  }
}

/**
 * Compares the versions of a record, in their order: with `all` they go from 1 to that of the row and each ends when the
 * next begins; with `latest` one of them has no end; the last one is that of the row.
 */
function compareVersions(policy: HistoryPolicy, row: CopiedRecord, versions: readonly Version[]): Difference[] {
  const found: Difference[] = [];
  const add = (kind: Difference['kind'], detail: string): void => void found.push({ kind, id: row.key, detail });
  const last = versions.at(-1);
  if (policy === 'none') return [];
  if (last === undefined) {
    // A deleted row that the service never listed has no version.
    if (!row.isDeleted) add('version_lost', 'the row has no version');
    return found;
  }
  if (policy === 'all' && !(versions.length === 1 && last.op === 'delete')) {
    for (const [at, { version, valid_from }] of versions.entries()) {
      const before = versions[at - 1];
      const expected = (before?.version ?? 0) + 1;
      if (version !== expected) add('version_gap', `version ${version} comes where ${expected} should`);
      // The end of a version before a gap is that of a missing one.
      const isChained = before === undefined || before.valid_to === valid_from;
      if (!isChained && (version === expected || before.valid_to === null))
        add('version_times', `version ${before.version} does not end when the next begins`);
    }
  }
  const open = versions.filter(({ valid_to }) => valid_to === null).length;
  if (policy === 'latest' && open !== 1) add('version_times', `${open} versions have no end`);
  if (last.valid_to !== null) add('version_times', `version ${last.version} is the last one and has an end`);
  if (last.version !== row.version)
    add('version_state', `the row is version ${row.version}, and the last one stored is ${last.version}`);
  if ((last.op === 'delete') !== row.isDeleted)
    add('version_state', `the row is ${row.isDeleted ? 'deleted' : 'live'}, and its last version says otherwise`);
  else if (last.hash !== row.hash) add('hash', 'the hash of the row is not that of its version');
  if (last.op === 'upsert' && last.body === null) add('body', `version ${last.version} has no body`);
  for (const { version, body, hash, op } of versions) {
    if (op !== 'delete' && body !== null && textHash(body) !== hash)
      add('hash', `the hash of version ${version} is not that of its body`);
  }
  return found;
}

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
  const found = await snapshot.damage(isReadable ? [...names, '_sync_versions'] : []);
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
