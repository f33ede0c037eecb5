import { hasUncompared } from '../../config/profile/record-fields.ts';
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
import { parseInstant } from '../../rows/columns/timestamps.ts';
import { storedZone, tombstoneOf, updatedColumns, updatedTime } from '../../rows/columns/updated-time.ts';
import { comparedPart } from '../../rows/mask-fields.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { recordDifferences } from '../../rows/records/record-difference.ts';
import { canonicalHash } from '../../rows/records/record-key.ts';
import type { SourceContext } from '../resource-context.ts';
import { comparedShape, differingFields, hashRows, readCopiedRecord, rowsOfRecords } from './comparable-rows.ts';
import { compareCopy, hashContent } from './compare-copy.ts';
import { type Difference, Findings, type ListingReport, type VerifyReport } from './report.ts';
import { readFromListing, readingContext, readListing, readOpenWindows, type VerifyContext } from './service-listing.ts';

export interface VerifyRequest {
  resource: string;
  /** `whole` compares the copy with the service, `internal` only with itself. */
  mode: VerifyMode;
  signal: AbortSignal;
}

interface VerifySource extends SourceContext {
  /** The name of the source. */
  source: string;
  /** Identifies forgotten records. */
  privacy: PrivacyKey;
}

/** The report of a verification, and what a repair needs of it. */
export interface Verification {
  report: VerifyReport;
  findings: Findings;
}

/**
 * Compares a resource of the copy with the service, or only with itself, and writes nothing but the report. Needs no
 * lease: other processes may write meanwhile. Throws `not_copied` if there is no copy, and what reading throws.
 */
export async function verifyResource(
  source: VerifySource,
  { resource, mode, signal }: VerifyRequest,
): Promise<Verification> {
  const { clock, warehouse } = source;
  const began = clock.now();
  const shape = (await readShapes(warehouse.own)).find((each) => each.resource === resource);
  if (shape === undefined) throw notCopied(resource);
  const copiedUntil = await readCopiedUntil(source, resource, mode);
  const forgotten = await readForgotten(warehouse.own, resource, source.privacy);
  const findings = new Findings();
  const reading = readingContext(source, { shape, forgotten }, signal);
  const { fields } = reading.profile;
  if (hasUncompared(fields)) findings.notCompared.add('fields with compare: false');
  const context = { ...reading, shape: comparedShape(shape, fields), findings, copiedUntil };
  const internal =
    mode === 'internal' ? await compareCopy(context).then(() => ({ listing: null, isComplete: true })) : null;
  const { listing, isComplete } = internal ?? (await compareWithListing(context));
  const verdict: Verdict =
    findings.count > 0 ? 'differs' : isComplete && findings.notJudged === 0 ? 'equal' : 'unproved';
  const ended = clock.now();
  const { requests } = context.meter;
  const report: VerifyReport = {
    id: source.runId,
    source: source.source,
    resource,
    mode,
    verdict,
    began_at: new Date(began).toISOString(),
    ended_at: new Date(ended).toISOString(),
    copied_until: Number.isFinite(copiedUntil) ? new Date(copiedUntil).toISOString() : null,
    requests,
    listing,
    ...findings.toReport(),
  };
  const row = {
    verification_id: report.id,
    resource,
    mode,
    verdict,
    requests,
    began_at: timestampText(began),
    ended_at: timestampText(ended),
    differences: findings.count,
    certificate: source.scrub(JSON.stringify(report)),
  };
  await warehouse.apply(await saveVerification(warehouse.own, row));
  return { report, findings };
}

/** The service's time of the last complete scan, or the local one if the service states no time. */
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
  return new SyncError('not_copied', `${resource} was never copied to its end: there is nothing to compare yet`, {
    recovery: 'stop',
    hint: `copy it first: content-sync backfill ${resource}`,
  });
}

/** At most this many records that seem to differ are read again: their bodies are in memory together. */
const MAX_READ_AGAIN = 2_000;

type SuspectKind = 'missing' | 'extra' | 'other';

/**
 * Compares the whole listing of the service with the copy, record by record, and the copy with itself. Records that seem
 * to differ are read from the listing again first, because service and copy may have changed meanwhile.
 */
async function compareWithListing(context: VerifyContext): Promise<{ listing: ListingReport; isComplete: boolean }> {
  const { profile, findings, clock } = context;
  const startedAt = timestampText(clock.now());
  const open = profile.windows === null ? null : await readOpenWindows(context, profile.windows);
  if (open !== null && open.count > 0)
    findings.notCompared.add(`${open.count} windows, from ${open.from} on, that may still change`);
  const recent = new Set<string>();
  const { seen, isComplete, showsExtraRows, ...listed } = await readListing(context, (records, rejected) => {
    findings.setAside += rejected;
    for (const { key, updated } of records) if (isRecent(context, updated)) recent.add(key);
    return contentsOf(context, records);
  });
  findings.compared.records = seen.size;
  const suspicions = new Map<string, SuspectKind>();
  await compareCopy(context, (key, content) => {
    const expected = seen.get(key) ?? DELETED;
    seen.delete(key);
    if (open?.keys.has(key) === true) return;
    if (expected === DELETED && showsExtraRows) suspicions.set(key, 'extra');
    else if (expected === DELETED) findings.notJudged += 1;
    else if (expected !== REJECTED && (content === null || expected !== toBits(content))) suspicions.set(key, 'other');
  });
  for (const [key, content] of seen) if (content >= 0) suspicions.set(key, 'missing');
  // What the copy shows by itself is reported already.
  for (const [key, kind] of findings.byRecord) if (kind === 'cells' || kind === 'hash') suspicions.delete(key);
  await confirmDifferences(context, [...suspicions], { startedAt, recent });
  return { listing: { records: findings.compared.records, ...listed }, isComplete };
}

/** What is kept of a listed record: 48 bits of the hash of its content, or one of these. */
const REJECTED = -1;
const DELETED = -2;

function toBits(content: string): number {
  return Number.parseInt(content.slice(0, 12), 16);
}

function contentsOf(
  { profile, shape, findings }: VerifyContext,
  records: readonly KeyedRecord[],
): (readonly [key: string, content: number])[] {
  const toCompared = comparedPart(profile.fields);
  const compared = records.map((record) => ({ ...record, value: toCompared(record.value) }));
  const live = compared.filter((_, at) => tombstoneOf(records[at]?.value ?? null, profile) === null);
  const expected = rowsOfRecords(shape, profile, live);
  return compared.map(({ key, value }) => {
    const rows = expected.get(key);
    if (rows === undefined) return [key, DELETED];
    if (rows !== null) return [key, toBits(hashContent(canonicalHash(value), hashRows(rows)))];
    findings.setAside += 1;
    return [key, REJECTED];
  });
}

/** Reads the suspicious records from the listing again, and reports those that still differ from the copy as it is now. */
async function confirmDifferences(
  context: VerifyContext,
  suspicions: readonly (readonly [key: string, SuspectKind])[],
  { startedAt, recent }: { startedAt: string; recent: ReadonlySet<string> },
): Promise<void> {
  if (suspicions.length === 0) return;
  const { findings, warehouse } = context;
  const checked = suspicions.slice(0, MAX_READ_AGAIN);
  const keys = checked.map(([key]) => key);
  const { records, isComplete } = await readFromListing(context, new Set(keys));
  const stored = await readStoredRows(context, keys);
  const snapshot = await warehouse.snapshot();
  try {
    for (const [key, suspicion] of checked) {
      const row = stored.get(key);
      const record = records.get(key);
      const isLive = row !== undefined && row.deletedAt === null;
      if (record !== undefined) await reportRecord(context, snapshot, { key, record, row });
      else if (suspicion !== 'extra' && isComplete) findings.addChanged(key);
      else if (suspicion !== 'extra') findings.add({ kind: suspicion, id: key, detail: 'as it was listed' });
      // The row was deleted or written by another process since the listing was read.
      else if (!isLive) continue;
      else if (row.syncedAt >= startedAt) findings.addChanged(key);
      else if (isComplete) findings.add({ kind: 'extra', id: key });
      else findings.notJudged += 1;
    }
  } finally {
    await snapshot.close();
  }
  for (const [id, kind] of suspicions.slice(MAX_READ_AGAIN)) {
    if (recent.has(id)) findings.addChanged(id);
    else findings.add({ kind, id, detail: 'not read again: there are too many' });
  }
}

function readStoredRows(
  { warehouse, shape, profile }: VerifyContext,
  keys: readonly string[],
): Promise<Map<string, StoredRow>> {
  const [table] = shape.tables;
  if (table === undefined) return Promise.resolve(new Map());
  return warehouse.rows.stored(table, [...keys], updatedColumns(table.columns, profile));
}

async function reportRecord(
  context: VerifyContext,
  snapshot: SnapshotReader,
  { key, record, row }: { key: string; record: SourceRecord; row: StoredRow | undefined },
): Promise<void> {
  const { shape, profile, findings } = context;
  const value = comparedPart(profile.fields)(record.value);
  const expected = rowsOfRecords(shape, profile, [{ ...record, value, key }]).get(key) ?? null;
  if (expected === null) {
    findings.setAside += 1;
    return;
  }
  const copied = await readCopiedRecord(snapshot, shape, key);
  let difference: Difference | null = null;
  if (copied === null || copied.isDeleted) difference = { kind: 'missing', id: key };
  else {
    const fields = differingFields(expected, copied.rows);
    difference =
      fields.length > 0
        ? { kind: 'other', id: key, fields }
        : await bodyDifference(context, snapshot, { key, value, hash: copied.hash });
  }
  if (difference === null) return;
  if (isChangedSince(context, record, row)) findings.addChanged(key);
  else findings.add(difference);
}

/** Null if the stored body is that of the service; without stored bodies the hash of the row is that of the record. */
async function bodyDifference(
  { shape, profile }: VerifyContext,
  { own }: SnapshotReader,
  { key, value, hash }: { key: string; value: SourceRecord['value']; hash: string },
): Promise<Difference | null> {
  if (profile.history === 'none') return hash === canonicalHash(value) ? null : { kind: 'body', id: key };
  const text = (await currentBodies(own, shape.resource, [key])).get(key);
  const body = text === undefined ? null : comparedPart(profile.fields)(storedValue(text, profile));
  const fields = recordDifferences(body, value).map(({ path }) => path);
  if (canonicalHash(body) === canonicalHash(value)) return null;
  return { kind: 'body', id: key, ...(fields.length === 0 ? {} : { fields }) };
}

/** True if the record changed after the copy was last brought up to date, by its time of change. */
function isRecent({ copiedUntil }: VerifyContext, updated: { at: number } | null | undefined): boolean {
  if (updated === null || updated === undefined) return false;
  // A time without milliseconds means its whole second.
  return updated.at >= (updated.at % 1_000 === 0 ? Math.floor(copiedUntil / 1_000) * 1_000 : copiedUntil);
}

/** The same, and later than its row. */
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
