// `content-sync verify`: compares the copy of a resource with the service, record by record (`compareWithListing`).
//
// 1. The listing of the service is read. Only 48 bits of a hash of each record stay in memory, because there may be millions.
// 2. The copy is compared with itself in one snapshot (`compare-copy.ts`), and each live row with the hash of its record.
// 3. Records that seem to differ are read from the listing again, because service and copy may have changed meanwhile.
// A record that the service changed after the last sync is no difference: the next sync brings it.
import type { Verdict, VerifyMode } from '../../database/own-tables.ts';
import type { SnapshotReader } from '../../database/snapshot-reader.ts';
import { readShapes } from '../../database/state/catalog.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { type PrivacyKey, readForgotten } from '../../database/state/forgotten.ts';
import { lastScanStart, saveVerification } from '../../database/state/runs.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { StoredRow } from '../../database/warehouse.ts';
import type { KeyedRecord } from '../../load/key-records.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { storedZone, tombstoneOf, updatedColumns, updatedTime } from '../../rows/columns/updated-time.ts';
import { comparedPart } from '../../rows/mask-fields.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { canonicalHash } from '../../rows/records/record-key.ts';
import type { SourceContext } from '../resource-context.ts';
import { comparedShape, differingFields, hashRows, readCopiedRecord, rowsOfRecords } from './comparable-rows.ts';
import { compareCopy, hashContent } from './compare-copy.ts';
import { readingContext, type VerifyContext } from './reading-context.ts';
import { readOpenWindows } from './report-pages.ts';
import { type Difference, Findings, type ListingReport, type VerifyReport } from './report.ts';
import { readFromListing, readListing } from './service-listing.ts';

export interface VerifyRequest {
  resource: string;
  /** `whole` compares the copy with the service, `internal` only with itself. */
  mode: VerifyMode;
  signal: AbortSignal;
}

interface VerifySource extends SourceContext {
  source: string;
  /** Identifies forgotten records. */
  privacy: PrivacyKey;
}

/**
 * Compares a resource of the copy with the service, or only with itself, and writes nothing but the report. Needs no
 * lease: other processes may write meanwhile. Throws `warehouse_missing` if there is no copy, and what reading throws.
 */
export async function verifyResource(
  source: VerifySource,
  { resource, mode, signal }: VerifyRequest,
): Promise<VerifyReport> {
  const { clock, warehouse } = source;
  const began = clock.now();
  const shape = (await readShapes(warehouse.own)).find((each) => each.resource === resource);
  if (shape === undefined) throw notCopied(resource);
  const copiedUntil = await readCopiedUntil(source, resource, mode);
  const forgotten = await readForgotten(warehouse.own, resource, source.privacy);
  const findings = new Findings();
  const reading = readingContext(source, { shape, forgotten }, signal);
  const { fields } = reading.profile;
  if (Object.values(fields).some(({ compare }) => !compare)) findings.notCompared.add('fields with compare: false');
  const context = { ...reading, shape: comparedShape(shape, fields), findings, copiedUntil };
  let compared: ListingComparison = { listing: null, isComplete: true };
  if (mode === 'internal') await compareCopy(context);
  else compared = await compareWithListing(context);
  const isEqual = compared.isComplete && findings.notListed === 0;
  const verdict: Verdict = findings.count > 0 ? 'differs' : isEqual ? 'equal' : 'unproved';
  const ended = clock.now();
  const { requests } = context.meter;
  const result = { resource, mode, verdict };
  const report: VerifyReport = {
    id: source.runId,
    source: source.source,
    ...result,
    began_at: new Date(began).toISOString(),
    ended_at: new Date(ended).toISOString(),
    copied_until: Number.isFinite(copiedUntil) ? new Date(copiedUntil).toISOString() : null,
    requests,
    listing: compared.listing,
    ...findings.toReport(resource, reading.profile.history !== 'none'),
  };
  const row = {
    verification_id: report.id,
    ...result,
    requests,
    began_at: timestampText(began),
    ended_at: timestampText(ended),
    differences: findings.count,
    certificate: source.scrub(JSON.stringify(report)),
  };
  await warehouse.apply(await saveVerification(warehouse.own, row));
  return report;
}

/** Returns the time of the last complete scan, by the service's clock if it states one; changes since then are no difference. */
async function readCopiedUntil(
  { warehouse: { own } }: VerifySource,
  resource: string,
  mode: VerifyMode,
): Promise<number> {
  const checkpoint = await readCheckpoint(own, resource);
  const { checked_at = null, last_success_at = null, unproved_at = null, unproved_full_at = null } = checkpoint ?? {};
  const ended = last_success_at ?? unproved_at ?? unproved_full_at;
  if (ended === null && mode !== 'internal') throw notCopied(resource);
  if (ended === null) return Number.NEGATIVE_INFINITY;
  return timestampMs(checked_at ?? (await lastScanStart(own, resource, ended)) ?? ended);
}

function notCopied(resource: string): SyncError {
  return new SyncError(
    'warehouse_missing',
    `${resource} was never copied to its end: there is nothing to compare yet`,
    {
      recovery: 'stop',
      hint: `copy it first: content-sync backfill ${resource}`,
    },
  );
}

/** Max records that seem to differ and are read again: their bodies are in memory together. */
const MAX_READ_AGAIN = 2_000;

/** How a record seems to differ, before it is read again. */
type PossibleDifference = 'missing' | 'extra' | 'other';

/** In place of the hash of a listed record: the copy would reject it, or it is a tombstone. */
const REJECTED = -1;
const DELETED = -2;

interface ListingComparison {
  /** Null if the copy was compared only with itself. */
  listing: ListingReport | null;
  isComplete: boolean;
}

/** Compares the complete listing of the service with the copy, record by record, and the copy with itself. */
async function compareWithListing(context: VerifyContext): Promise<ListingComparison> {
  const { profile, findings, clock } = context;
  const startedAt = timestampText(clock.now());
  // The windows of a report that may still change are not compared.
  const changing = profile.windows === null ? null : await readOpenWindows(context, profile.windows);
  if (changing !== null && changing.count > 0)
    findings.notCompared.add(`${changing.count} windows, from ${changing.from} on, that may still change`);
  const recent = new Set<string>();
  const {
    seen: hashes,
    isComplete,
    showsExtraRows,
    ...listing
  } = await readListing(context, (records, rejected) => {
    findings.rejected += rejected;
    for (const { key, updated } of records) if (isRecent(context, updated)) recent.add(key);
    return hashRecords(context, records);
  });
  findings.compared.records = hashes.size;

  const differences = new Map<string, PossibleDifference>();
  await compareCopy(context, (key, content) => {
    const hash = hashes.get(key) ?? DELETED;
    hashes.delete(key);
    if (changing?.keys.has(key) === true || hash === REJECTED) return;
    if (hash !== DELETED) {
      if (content === null || hash !== shortenHash(content)) differences.set(key, 'other');
    } else if (showsExtraRows) differences.set(key, 'extra');
    else findings.notListed += 1;
  });
  // The hashes that remain are of records without a live row.
  for (const [key, hash] of hashes) if (hash !== REJECTED && hash !== DELETED) differences.set(key, 'missing');
  // The comparison of the copy with itself has reported these.
  for (const key of findings.damaged) differences.delete(key);

  const checked = [...differences].slice(0, MAX_READ_AGAIN);
  if (checked.length > 0) await confirmDifferences(context, checked, startedAt);
  for (const [id, kind] of [...differences].slice(MAX_READ_AGAIN)) {
    if (recent.has(id)) findings.addChanged(id);
    else findings.add({ kind, id, detail: 'not read again: there are too many' });
  }
  return { listing: { records: findings.compared.records, ...listing }, isComplete };
}

/** Returns 48 bits of a hash in hexadecimal digits, as a number. */
function shortenHash(hash: string): number {
  return Number.parseInt(hash.slice(0, 12), 16);
}

/** Returns for each record the short hash of its content and of the rows that the copy should have. */
function hashRecords(
  { profile, shape, findings }: VerifyContext,
  records: readonly KeyedRecord[],
): (readonly [key: string, hash: number])[] {
  const toCompared = comparedPart(profile.fields);
  const compared = records.map((record) => ({ ...record, value: toCompared(record.value) }));
  const live = compared.filter((_, at) => tombstoneOf(records[at]?.value ?? null, profile) === null);
  const expected = rowsOfRecords(shape, profile, live);
  return compared.map(({ key, value }) => {
    const rows = expected.get(key);
    if (rows === undefined) return [key, DELETED];
    if (rows !== null) return [key, shortenHash(hashContent(canonicalHash(value), hashRows(rows)))];
    findings.rejected += 1;
    return [key, REJECTED];
  });
}

/** Reads these records from the listing again, and reports those that still differ from the copy as it is now. */
async function confirmDifferences(
  context: VerifyContext,
  differences: readonly (readonly [key: string, PossibleDifference])[],
  startedAt: string,
): Promise<void> {
  const { findings, warehouse, shape, profile } = context;
  const keys = differences.map(([key]) => key);
  const { records, isComplete } = await readFromListing(context, new Set(keys));
  const [table] = shape.tables;
  const columns = updatedColumns(table?.columns ?? [], profile);
  const stored = table === undefined ? new Map<string, StoredRow>() : await warehouse.rows.stored(table, keys, columns);
  const snapshot = await warehouse.snapshot();
  try {
    for (const [key, kind] of differences) {
      const row = stored.get(key);
      const record = records.get(key);
      if (record !== undefined) {
        const difference = await findDifference(context, snapshot, key, record);
        if (difference === null) continue;
        if (difference === 'rejected') findings.rejected += 1;
        else if (isChangedSince(context, record, row)) findings.addChanged(key);
        else findings.add(difference.found, difference.isHashEqual ? 'restart' : undefined);
      } else if (kind !== 'extra') {
        if (isComplete) findings.addChanged(key);
        else findings.add({ kind, id: key, detail: 'as it was listed' });
      }
      // Otherwise another process has deleted or written the row since the listing was read.
      else if (row !== undefined && row.deletedAt === null) {
        if (row.syncedAt >= startedAt) findings.addChanged(key);
        else if (isComplete) findings.add({ kind: 'extra', id: key });
        else findings.notListed += 1;
      }
    }
  } finally {
    await snapshot.close();
  }
}

/**
 * Returns how a record of the service differs from the copy; null if it does not, `rejected` if the copy would reject it.
 * `isHashEqual`: the row has the hash of the record, so that a backfill would not write it again.
 */
async function findDifference(
  { shape, profile }: VerifyContext,
  snapshot: SnapshotReader,
  key: string,
  record: SourceRecord,
): Promise<{ found: Difference; isHashEqual: boolean } | 'rejected' | null> {
  const toCompared = comparedPart(profile.fields);
  const value = toCompared(record.value);
  const expected = rowsOfRecords(shape, profile, [{ ...record, value, key }]).get(key) ?? null;
  if (expected === null) return 'rejected';
  const copied = await readCopiedRecord(snapshot, shape, key);
  if (copied === null || copied.isDeleted) {
    return { found: { kind: 'missing', id: key }, isHashEqual: false };
  }
  const fields = differingFields(expected, copied.rows);
  // With stored bodies, the comparison of the copy with itself has reported such a row.
  const isHashEqual = profile.history === 'none' && copied.hash === canonicalHash(value);
  if (fields.length > 0) return { found: { kind: 'other', id: key, fields }, isHashEqual };
  // Without a history there are no stored bodies, but the row has the hash of its record.
  const body = profile.history === 'none' ? null : (await currentBodies(snapshot.own, shape.resource, [key])).get(key);
  const hash = body === null ? copied.hash : canonicalHash(toCompared(storedValue(body ?? 'null', profile)));
  return hash === canonicalHash(value) ? null : { found: { kind: 'body', id: key }, isHashEqual: false };
}

/** True if the record changed after the copy was last brought up to date, by its time of change. */
function isRecent({ copiedUntil }: VerifyContext, updated: { at: number } | null | undefined): boolean {
  if (updated === null || updated === undefined) return false;
  // A time without milliseconds means its whole second.
  return updated.at >= (updated.at % 1_000 === 0 ? Math.floor(copiedUntil / 1_000) * 1_000 : copiedUntil);
}

/** True if the record is recent, and changed after its row. */
function isChangedSince(context: VerifyContext, { value }: SourceRecord, row: StoredRow | undefined): boolean {
  const { profile, shape } = context;
  const updated = updatedTime(value, profile);
  if (updated === null || updated === undefined || !isRecent(context, updated)) return false;
  if (row === undefined || row.deletedAt !== null || row.updated === null) return true;
  if (typeof row.updated === 'boolean') return true;
  const zone = storedZone(updatedColumns(shape.tables[0]?.columns ?? [], profile), profile);
  const before = parseInstant(typeof row.updated === 'bigint' ? Number(row.updated) : row.updated, zone);
  return before === null || before.epochMs < updated.at;
}
