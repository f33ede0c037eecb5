import { readItem } from '../../extract/read-item.ts';
import { keyOf } from '../../load/prepare-page.ts';
import type { KeyedRecord } from '../../load/key-records.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { storedZone, updatedColumns, updatedTime } from '../../shape/columns/updated-time.ts';
import { comparedPart } from '../../shape/mask-fields.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import { recordDifferences } from '../../shape/records/record-difference.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import { inParts } from '../../state/in-parts.ts';
import { currentBodies } from '../../state/versions.ts';
import type { SnapshotReader } from '../../warehouse/snapshot-reader.ts';
import type { StoredRow } from '../../warehouse/warehouse.ts';
import { differingFields, hashRows, readCopiedRecord, rowsOfRecords } from './comparable-rows.ts';
import { compareCopy, hashContent } from './compare-copy.ts';
import { checkStructure } from './check-structure.ts';
import type { Difference, ListingReport } from './report.ts';
import { readFromListing, readListing, readOpenWindows } from './service-listing.ts';
import type { VerifyContext } from './verify-context.ts';

/** Records that seem to differ are fetched again, this many at most. */
const MAX_FETCHED_AGAIN = 500;
/** Few, so that the service and the copy are read at nearly the same moment. */
const RECORDS_PER_STEP = 20;

type Suspicion = 'missing' | 'extra' | 'other';

/** What the service returned for a record: null if it is gone, undefined if the response does not show it. */
type Fetched = SourceRecord | null | undefined;

/** Compares the copy with itself. `onLiveRow`: see `CopySnapshot`. */
export async function compareInternally(
  context: VerifyContext,
  onLiveRow?: (key: string, content: string | null) => void,
): Promise<void> {
  const { shape, profile, findings, signal, warehouse } = context;
  const snapshot = await warehouse.snapshot();
  try {
    if (await checkStructure(context, snapshot))
      await compareCopy({
        snapshot,
        shape,
        profile,
        findings,
        signal,
        ...(onLiveRow === undefined ? {} : { onLiveRow }),
      });
    else findings.notCompared.add('rows: the tables are not as recorded');
  } finally {
    await snapshot.close();
  }
}

/**
 * Compares the whole listing of the service with the copy, record by record, and the copy with itself. Records that seem
 * to differ are fetched again first, because service and copy may have changed meanwhile.
 */
export async function compareWithListing(
  context: VerifyContext,
): Promise<{ listing: ListingReport; isComplete: boolean }> {
  const { profile, findings, clock } = context;
  const startedAt = timestampText(clock.now());
  const suspicions = new Map<string, Suspicion>();
  const open = profile.windows === null ? null : await readOpenWindows(context, profile.windows);
  if (open !== null && open.count > 0)
    findings.notCompared.add(`${open.count} windows, from ${open.from} on, that may still change`);
  const { seen, isComplete, showsExtraRows, ...listed } = await readListing(context, (records, rejected) => {
    findings.setAside += rejected;
    return readListedRecords(context, records, suspicions);
  });
  findings.compared.records = seen.size;
  await compareInternally(context, (key, content) => {
    if (open?.keys.has(key) === true) return;
    const compared = compareContent(seen.get(key), content);
    if (compared === 'changed') findings.addChanged(key);
    else if (compared === 'other') suspicions.set(key, 'other');
    else if (compared === null && showsExtraRows) suspicions.set(key, 'extra');
    else if (compared === null) findings.notJudged += 1;
  });
  // What the copy shows by itself is reported already.
  for (const [key, kind] of findings.byRecord) if (kind === 'cells' || kind === 'hash') suspicions.delete(key);
  await confirmDifferences(context, [...suspicions], startedAt);
  const place = { path: profile.path, style: profile.page.style, records: seen.size };
  return { listing: { ...place, ...listed }, isComplete };
}

/** 48 bits of the hash of a listed record's content, plus `CHANGED` if it changed since; or one of the other two. */
type ListedContent = number;
const CHANGED = 2 ** 48;
const NOT_COMPARED = -1;
const DELETED = -2;

/** Compares the content of a live row with that of its record; null if the record is not listed. */
function compareContent(
  listed: ListedContent | undefined,
  content: string | null,
): 'equal' | 'other' | 'changed' | null {
  if (listed === undefined || listed === DELETED) return null;
  if (listed === NOT_COMPARED || (content !== null && listed % CHANGED === toBits(content))) return 'equal';
  return listed < CHANGED ? 'other' : 'changed';
}

function toBits(content: string): number {
  return Number.parseInt(content.slice(0, 12), 16);
}

/** Adds the records without a live row to `suspicions`, and returns how each is listed. */
async function readListedRecords(
  context: VerifyContext,
  records: readonly KeyedRecord[],
  suspicions: Map<string, Suspicion>,
): Promise<(readonly [key: string, ListedContent])[]> {
  const { profile, shape, findings } = context;
  const toCompared = comparedPart(profile.fields);
  const isDeleted = ({ value }: KeyedRecord): boolean => tombstoneOf(value, profile) !== null;
  const live = records.flatMap((record) => (isDeleted(record) ? [] : [{ ...record, value: toCompared(record.value) }]));
  const stored = await readStoredRows(context, live.map(keyOf));
  const expected = rowsOfRecords(shape, profile, live);
  return records.map((record) => {
    const { key, value } = record;
    if (isDeleted(record)) return [key, DELETED];
    const rows = expected.get(key) ?? null;
    if (rows === null) {
      findings.setAside += 1;
      return [key, NOT_COMPARED];
    }
    const row = stored.get(key);
    const hasChanged = isChangedSince(context, record, row);
    if (row === undefined || row.deletedAt !== null) {
      if (hasChanged) findings.addChanged(key);
      else suspicions.set(key, 'missing');
    }
    const bits = toBits(hashContent(canonicalHash(toCompared(value)), hashRows(rows)));
    return [key, hasChanged ? bits + CHANGED : bits];
  });
}

function readStoredRows(
  { warehouse, shape, profile }: VerifyContext,
  keys: readonly string[],
): Promise<Map<string, StoredRow>> {
  const [table] = shape.tables;
  if (table === undefined || keys.length === 0) return Promise.resolve(new Map());
  return warehouse.stored(table, [...keys], updatedColumns(table.columns, profile));
}

/** True if the record changed after the copy was last brought up to date, and later than its row, by its time of change. */
function isChangedSince(
  { profile, shape, copiedUntil }: VerifyContext,
  { updated }: Pick<KeyedRecord, 'updated'>,
  row: StoredRow | undefined,
): boolean {
  if (updated === null) return false;
  const { at } = updated;
  // A time without milliseconds stands for its whole second.
  if (at < (at % 1_000 === 0 ? Math.floor(copiedUntil / 1_000) * 1_000 : copiedUntil)) return false;
  if (row === undefined || row.deletedAt !== null || row.updated === null) return true;
  if (typeof row.updated === 'boolean') return true;
  const zone = storedZone(updatedColumns(shape.tables[0]?.columns ?? [], profile), profile);
  const before = parseInstant(typeof row.updated === 'bigint' ? Number(row.updated) : row.updated, zone);
  return before === null || before.epochMs < at;
}

/** Fetches the suspicious records again, individually or from the listing, and reports those that still differ. */
async function confirmDifferences(
  context: VerifyContext,
  suspicions: readonly (readonly [key: string, Suspicion])[],
  startedAt: string,
): Promise<void> {
  const { profile, findings, signal } = context;
  const checked = suspicions.slice(0, MAX_FETCHED_AGAIN);
  const unclear: (readonly [string, Suspicion])[] = profile.item === null ? [...checked] : [];
  for (const part of profile.item === null ? [] : inParts(checked, RECORDS_PER_STEP)) {
    const fetched = new Map<string, Fetched>();
    for (const [key] of part) {
      signal.throwIfAborted();
      fetched.set(key, await fetchRecord(context, key));
    }
    // Only the listing tells whether a record that is still there belongs to the copy.
    const isUnclear = ([key, suspicion]: readonly [string, Suspicion]) =>
      suspicion === 'extra' && fetched.get(key) !== null;
    unclear.push(...part.filter(isUnclear));
    await reportDifferences(
      context,
      part.filter((each) => !isUnclear(each)),
      { fetched, startedAt },
    );
  }
  if (unclear.length > 0) {
    const { records, isComplete } = await readFromListing(context, new Set(unclear.map(([key]) => key)));
    const fetched = new Map(unclear.map(([key]) => [key, records.get(key) ?? (isComplete ? null : undefined)]));
    await reportDifferences(context, unclear, { fetched, startedAt, isListing: true });
  }
  for (const [id, kind] of suspicions.slice(MAX_FETCHED_AGAIN))
    findings.add({ kind, id, detail: 'not fetched again: there are too many' });
}

async function fetchRecord(context: VerifyContext, key: string): Promise<Fetched> {
  try {
    const reading = await readItem(context, key, 'bulk');
    return reading.isThere ? reading.record : null;
  } catch (error) {
    if (error instanceof SyncError && (error.recovery === 'skip' || error.code.startsWith('item_'))) return undefined;
    throw error;
  }
}

interface FetchedRecords {
  fetched: ReadonlyMap<string, Fetched>;
  startedAt: string;
  /** True if they come from the listing, false if each was fetched individually. */
  isListing?: boolean;
}

/** Compares the records with the copy as it is now. */
async function reportDifferences(
  context: VerifyContext,
  suspicions: readonly (readonly [key: string, Suspicion])[],
  { fetched, startedAt, isListing = false }: FetchedRecords,
): Promise<void> {
  const { findings, warehouse } = context;
  const stored = await readStoredRows(
    context,
    suspicions.map(([key]) => key),
  );
  const snapshot = await warehouse.snapshot();
  try {
    for (const [key, suspicion] of suspicions) {
      const row = stored.get(key);
      const record = fetched.get(key);
      const isLive = row !== undefined && row.deletedAt === null;
      if (record !== null && record !== undefined) await reportRecord(context, snapshot, { key, record, row });
      // The row was deleted, or written by another process, since the listing was read.
      else if (!isLive && (suspicion === 'extra' || (record === null && row !== undefined))) continue;
      else if (suspicion === 'extra' && row !== undefined && row.syncedAt >= startedAt) findings.addChanged(key);
      else if (suspicion === 'extra' && record === undefined) findings.notJudged += 1;
      else if (suspicion !== 'extra' && record === null && isListing) findings.addChanged(key);
      else findings.add({ kind: suspicion, id: key, ...(suspicion === 'extra' ? {} : { detail: 'as it was listed' }) });
    }
  } finally {
    await snapshot.close();
  }
}

async function reportRecord(
  context: VerifyContext,
  snapshot: SnapshotReader,
  { key, record, row }: { key: string; record: SourceRecord; row: StoredRow | undefined },
): Promise<void> {
  const { shape, profile, findings } = context;
  const toCompared = comparedPart(profile.fields);
  const value = toCompared(record.value);
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
    const text = (await currentBodies(snapshot.own, shape.resource, [key])).get(key);
    const body = text === undefined ? null : toCompared(storedValue(text, profile));
    // Without stored bodies the hash of the row is that of the record.
    const hash = profile.history === 'none' ? copied.hash : canonicalHash(body);
    if (fields.length > 0) difference = { kind: 'other', id: key, fields };
    else if (hash !== canonicalHash(value)) {
      const paths = body === null ? [] : recordDifferences(body, value).map(({ path }) => path);
      difference = { kind: 'body', id: key, ...(paths.length === 0 ? {} : { fields: paths }) };
    }
  }
  if (difference === null) return;
  const updated = updatedTime(record.value, profile) ?? null;
  if (isChangedSince(context, { updated }, row)) findings.addChanged(key);
  else findings.add(difference);
}
