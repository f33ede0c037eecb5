// Compares the copy with itself, for `content-sync verify`: rows with the stored bodies, and versions with each other.
//
// The copy stores the JSON body of each record, and its row and child rows are made from that. So they are made once more and
// compared: a cell that another program has changed is found without a request to the service.
import { sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { VersionRow } from '../../database/own-tables.ts';
import type { SnapshotReader } from '../../database/snapshot-reader.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { lenientProfile } from '../../load/grow-shape.ts';
import type { HistoryPolicy } from '../../model/vocabulary.ts';
import { comparedPart } from '../../rows/mask-fields.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { canonicalHash, textHash } from '../../rows/records/record-key.ts';
import { type CopiedRecord, differingFields, hashRows, readCopiedPages, rowsOfRecords } from './comparable-rows.ts';
import type { DifferenceKind } from './report.ts';
import type { VerifyContext } from './reading-context.ts';

/** Called with the key of each live row and a hash of its content; null if its body is missing. */
export type OnLiveRow = (key: string, content: string | null) => void;

/** The bodies of this many records are in memory together. */
const RECORDS_PER_STEP = 50;
const IDS_PER_QUERY = 1_000;

type Version = Pick<VersionRow, 'id' | 'version' | 'valid_from' | 'valid_to' | 'op' | 'hash' | 'body'>;

/** Hashes a record with its rows: equal if service and copy have the same. */
export function hashContent(valueHash: string, rowsHash: string): string {
  return textHash(`${valueHash} ${rowsHash}`);
}

/** Compares the copy of a resource with itself, in one snapshot, and adds the differences to the findings. */
export async function compareCopy(context: VerifyContext, onLiveRow: OnLiveRow = () => undefined): Promise<void> {
  const { warehouse, shape, profile, findings, signal } = context;
  const snapshot = await warehouse.snapshot();
  try {
    const versions = snapshot.own.selectFrom('_sync_versions').select('id').where('resource', '=', shape.resource);
    const keepsBodies = profile.history !== 'none';
    const hasBodies = keepsBodies && (await versions.limit(1).execute()).length > 0;
    const withoutBodies = `rows with stored bodies: ${keepsBodies ? 'there are none yet' : 'history: none keeps none'}`;
    const withBodies = 'cells of deleted rows, and of columns that a wider one has replaced';
    findings.notCompared.add(hasBodies ? withBodies : withoutBodies);
    for await (const { records, orphans } of readCopiedPages(snapshot, shape)) {
      signal.throwIfAborted();
      for (const { table, key } of orphans) findings.add({ kind: 'orphans', id: key, fields: [table] });
      for (const { key, isDeleted, hash, rows } of records.values()) {
        findings.compared[isDeleted ? 'deleted_rows' : 'rows'] += 1;
        findings.compared.child_rows += rows.length - 1;
        if (isDeleted && rows.length > 1) findings.add({ kind: 'orphans', id: key, detail: 'its row is deleted' });
        if (!isDeleted && !hasBodies) onLiveRow(key, hashContent(hash, hashRows(rows)));
      }
      if (!hasBodies) continue;
      for (const part of inParts([...records.values()], RECORDS_PER_STEP))
        await compareBodies(context, snapshot, part, onLiveRow);
    }
    if (hasBodies) await findVersionsWithoutRow(context, snapshot);
  } finally {
    await snapshot.close();
  }
}

/** Compares some records with their versions, and live rows with the body of the last version. */
async function compareBodies(
  { shape, profile, findings }: VerifyContext,
  { own }: SnapshotReader,
  records: readonly CopiedRecord[],
  onLiveRow: OnLiveRow,
): Promise<void> {
  const keys = records.map(({ key }) => key);
  const select = own.selectFrom('_sync_versions').where('resource', '=', shape.resource).where('id', 'in', keys);
  const columns = ['id', 'version', 'valid_from', 'valid_to', 'op', 'hash', 'body'] as const;
  const found: Version[] = await select.select(columns).orderBy('version').execute();
  findings.compared.versions += found.length;
  const versions = Map.groupBy(found, ({ id }) => id);
  const live = records.flatMap((record) => {
    const { key, isDeleted } = record;
    const history = versions.get(key) ?? [];
    for (const [kind, detail] of findVersionFaults(profile.history, record, history))
      findings.add({ kind, id: key, detail });
    if (isDeleted) return [];
    const current = history.at(-1);
    const body = current?.op === 'upsert' ? current.body : null;
    const value = body === null ? undefined : parseBody(body, profile);
    if (body !== null && value !== undefined) return [{ record, value, bytes: Buffer.from(body), key }];
    if (body === null) onLiveRow(key, null);
    else findings.add({ kind: 'version_lost', id: key, detail: 'its body is not JSON' });
    return [];
  });
  const rowsByKey = rowsOfRecords(shape, lenientProfile(profile), live);
  for (const { key, value, record } of live) {
    const rowsHash = hashRows(record.rows);
    onLiveRow(key, hashContent(canonicalHash(value), rowsHash));
    const expected = rowsByKey.get(key) ?? [];
    if (hashRows(expected) !== rowsHash)
      findings.add({ kind: 'cells', id: key, fields: differingFields(expected, record.rows) });
  }
}

/** Returns the compared part of a stored body; undefined if it is not JSON. */
function parseBody(body: string, profile: ResourceProfile) {
  try {
    return comparedPart(profile.fields)(storedValue(body, profile));
  } catch {
    return undefined;
  }
}

/** Finds records that have versions and no row, in steps of ids. */
async function findVersionsWithoutRow({ shape, findings }: VerifyContext, { own }: SnapshotReader): Promise<void> {
  const [table] = shape.tables;
  if (table === undefined) return;
  const rows = sql`SELECT 1 FROM ${sql.id(table.name)} AS t WHERE t.${sql.id(table.key[0] ?? '')} = v."id"`;
  for (let after = '', hasMore = true; hasMore;) {
    const query = sql<{ id: string }>`SELECT DISTINCT v."id" AS "id" FROM "_sync_versions" AS v
      WHERE v."resource" = ${shape.resource} AND v."id" > ${after} AND NOT EXISTS (${rows})
      ORDER BY 1 LIMIT ${IDS_PER_QUERY}`;
    const ids = (await query.execute(own)).rows.map(({ id }) => id);
    for (const id of ids) findings.add({ kind: 'version_lost', id, detail: 'it has versions and no row' });
    hasMore = ids.length === IDS_PER_QUERY;
    after = ids.at(-1) ?? '';
  }
}

/**
 * Compares the versions of a record, oldest first. With `history: all` they are numbered from 1 without a gap, and each
 * ends when the next begins. The last version must be that of the row.
 */
function* findVersionFaults(
  history: HistoryPolicy,
  row: CopiedRecord,
  versions: readonly Version[],
): Generator<[DifferenceKind, string]> {
  const last = versions.at(-1);
  if (last === undefined) {
    // A row without a version is right only if the service reported the record as deleted before it was ever listed.
    if (!row.isDeleted) yield ['version_lost', 'the row has no version'];
    return;
  }
  if (history === 'all' && !(versions.length === 1 && last.op === 'delete')) {
    for (const [at, { version, valid_from }] of versions.entries()) {
      const before = versions[at - 1];
      const expected = (before?.version ?? 0) + 1;
      if (version !== expected) yield ['version_gap', `version ${version} comes where ${expected} should`];
      // After a gap, the time before it belongs to a missing version.
      else if (before !== undefined && before.valid_to !== valid_from)
        yield ['version_times', `version ${before.version} does not end when the next begins`];
    }
  }
  if (last.valid_to !== null) yield ['version_times', `version ${last.version} is the last one and has an end`];
  if (last.version !== row.version)
    yield ['version_state', `the row is version ${row.version}, and the last one stored is ${last.version}`];
  if ((last.op === 'delete') !== row.isDeleted)
    yield ['version_state', `the row is ${row.isDeleted ? 'deleted' : 'live'}, and its last version says otherwise`];
  else if (last.hash !== row.hash) yield ['hash', 'the hash of the row is not that of its version'];
  if (last.op === 'upsert' && last.body === null) yield ['version_lost', `version ${last.version} has no body`];
  for (const { version, body, hash, op } of versions) {
    if (op !== 'delete' && body !== null && textHash(body) !== hash)
      yield ['hash', `the hash of version ${version} is not that of its body`];
  }
}
