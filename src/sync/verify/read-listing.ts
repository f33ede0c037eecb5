import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Page } from '../../extract/page.ts';
import { dropForgotten } from '../../load/drop-forgotten.ts';
import { keyRecords, type KeyedRecord } from '../../load/key-records.ts';
import { keyOf } from '../../load/prepare-page.ts';
import type { SourceRecord } from '../../model/json.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { storedZone, updatedColumns, updatedTime } from '../../shape/columns/updated-time.ts';
import { comparedPart } from '../../shape/mask-fields.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import { freshCheckpoint } from '../../state/checkpoints.ts';
import type { StoredRow } from '../../warehouse/warehouse.ts';
import { fingerprintOf, startWalk } from '../plan.ts';
import type { WalkProof } from '../prove-walk.ts';
import type { RunContext } from '../run-progress.ts';
import { endedBy } from '../walk/send-pages.ts';
import type { ListingAccount } from './certificate.ts';
import { contentOf, expectedRecords } from './expected-rows.ts';
import { bothProved, listedPages, NOTHING_LISTED } from './listed-pages.ts';
import { MetRecords } from './met-records.ts';
import type { VerifyContext } from './verify-context.ts';

/** What the listing has shown, and of what it seems that the copy has it not. */
export interface ListedResource {
  met: MetRecords;
  /** Keys of records that are listed and have no live row. */
  missing: Set<string>;
  /** Keys of rows that were not compared. */
  unread: ReadonlySet<string>;
  account: ListingAccount;
  proof: WalkProof;
  /** Rows too many when the listing was begun, at most; null if the service tells no total. */
  extraAtStart: number | null;
}

/** A listing that moves while it is read is read again, so often. */
const MOST_WALKS = 3;

/** Reads the whole listing, page by page, and notes what each record says. Throws what walking throws. */
export async function readListing(context: VerifyContext): Promise<ListedResource> {
  const { warehouse, owned, profile } = context;
  const met = new MetRecords();
  const missing = new Set<string>();
  const live = await warehouse.count(owned.resource);
  for (let walks = 1; ; walks += 1) {
    const { counts, proof, account, unread } = await oneWalk(context, met, missing);
    if (proof.isProved || !proof.mayRepeat || walks === MOST_WALKS) {
      const { total, notRows, oldWithoutRow } = counts;
      // What the total counts and what was listed are the same records only in a listing that is whole.
      const isOne = walks === 1 && profile.windows === null;
      const isCounted = isOne && total !== null && proof.doubts.length === 0 && !proof.needsCatchUp;
      const extraAtStart = isCounted ? live - (total - notRows) + oldWithoutRow : null;
      return { met, missing, unread, account: { ...account, style: profile.page.style }, proof, extraAtStart };
    }
  }
}

interface Counts {
  pages: number;
  records: number;
  /** As the first page told it. */
  total: number | null;
  lastTotal: number | null;
  /** Records that get no row: set aside, deleted, or left out. */
  notRows: number;
  /** Without a row although they had not changed since the listing was begun. */
  oldWithoutRow: number;
  startedAt: number;
}

async function oneWalk(context: VerifyContext, met: MetRecords, missing: Set<string>) {
  const { profile, clock, owned, signal } = context;
  const start = startWalk(freshCheckpoint(owned.resource, fingerprintOf(profile)), 'full', null, clock.now());
  const { pages: listed, unread, notCompared } = await listedPages(context, start);
  if (notCompared !== null && !context.findings.notCompared.includes(notCompared))
    context.findings.notCompared.push(notCompared);
  const none = { pages: 0, records: 0, total: null, lastTotal: null, notRows: 0, oldWithoutRow: 0 };
  const counts: Counts = { ...none, startedAt: Infinity };
  let proof: WalkProof | null = null;
  let end: string | null = null;
  for await (const page of listed) {
    await meet(context, page, met, missing, counts);
    if (page.end !== null) {
      proof = bothProved(proof, endedBy(context, page, page.end, { former: null, behind: null }).proof);
      end = page.end.proof;
    }
    page.release();
    signal.throwIfAborted();
    await nextTurn();
  }
  if (proof === null && profile.windows === null) throw new Error('a walk came to no end');
  proof ??= NOTHING_LISTED;
  const doubts = proof.doubts.map(({ message }) => message);
  const { pages, records, lastTotal } = counts;
  const total = profile.windows === null ? lastTotal : null;
  return { counts, proof, unread, account: { path: profile.path, pages, records, total, end, doubts } };
}

async function meet(
  context: VerifyContext,
  page: Page,
  met: MetRecords,
  missing: Set<string>,
  counts: Counts,
): Promise<void> {
  const { profile, shape, findings, clock } = context;
  counts.pages += 1;
  counts.records += page.records.length - page.again;
  if (counts.pages === 1) Object.assign(counts, { total: page.total, startedAt: page.serverDate ?? clock.now() });
  counts.lastTotal = page.total ?? counts.lastTotal;
  const { records, forgotten } = dropForgotten(page.records, profile, context.owned.forgotten);
  const { keyed, setAside, leftOut } = keyRecords(records, profile);
  const compared = comparedPart(profile.fields);
  const live = keyed
    .filter(({ value }) => tombstoneOf(value, profile) === null)
    .map((record) => Object.assign(record, { value: compared(record.value) }));
  const stored = await storedRows(context, live);
  const expected = new Map(expectedRecords(shape, profile, live).map(({ key, digest }) => [key, digest]));
  findings.setAside += setAside.length;
  counts.notRows += forgotten + setAside.length + leftOut.length + (keyed.length - live.length);
  for (const record of live) {
    const digest = expected.get(record.key) ?? null;
    if (digest === null) findings.setAside += 1;
    if (digest === null) counts.notRows += 1;
    const row = stored.get(record.key);
    const isSince = changedSince(context, record, row);
    met.add(record.key, digest === null ? null : contentOf(record.value, digest), isSince);
    if (digest === null || (row !== undefined && row.deletedAt === null)) continue;
    if ((record.updated?.at ?? 0) < counts.startedAt) counts.oldWithoutRow += 1;
    if (isSince) findings.changedSince(record.key);
    else missing.add(record.key);
  }
  findings.compared.records = met.size;
}

/** The rows of these records in the copy as it is now. */
export function storedRows(
  { warehouse, shape, profile }: VerifyContext,
  records: readonly { key: string }[],
): Promise<Map<string, StoredRow>> {
  const [table] = shape.tables;
  if (table === undefined || records.length === 0) return Promise.resolve(new Map());
  return warehouse.stored(table, records.map(keyOf), updatedColumns(table.columns, profile));
}

/**
 * True for a record that changed at the service after the copy was brought up to date: by its own time of change, which
 * is also later than that of its row.
 */
export function changedSince(
  { profile, shape, copiedUntil }: VerifyContext,
  record: Pick<KeyedRecord, 'updated'>,
  row: StoredRow | undefined,
): boolean {
  const at = record.updated?.at;
  if (at === undefined) return false;
  // A time without milliseconds stands for its whole second.
  const until = at % 1_000 === 0 ? Math.floor(copiedUntil / 1_000) * 1_000 : copiedUntil;
  if (at < until) return false;
  if (row === undefined || row.deletedAt !== null || row.updated === null) return true;
  const zone = storedZone(updatedColumns(shape.tables[0]?.columns ?? [], profile), profile);
  const before = typeof row.updated === 'boolean' ? null : parseInstant(plain(row.updated), zone);
  return before === null || before.epochMs < at;
}

function plain(cell: string | number | bigint): string | number {
  return typeof cell === 'bigint' ? Number(cell) : cell;
}

/** Reads the whole listing once more, for these records alone. */
export async function listedAgain(context: RunContext, keys: ReadonlySet<string>): Promise<Map<string, SourceRecord>> {
  const { profile, clock, owned, signal } = context;
  const start = startWalk(freshCheckpoint(owned.resource, fingerprintOf(profile)), 'full', null, clock.now());
  const found = new Map<string, SourceRecord>();
  const { pages } = await listedPages(context, start);
  for await (const page of pages) {
    for (const record of keyRecords(page.records, profile).keyed) {
      const isLive = keys.has(record.key) && tombstoneOf(record.value, profile) === null;
      if (isLive) found.set(record.key, record);
    }
    page.release();
    signal.throwIfAborted();
  }
  return found;
}

/** The time of change of a record that was read, as `changedSince` takes it. */
export function dated(record: SourceRecord, { profile }: VerifyContext): Pick<KeyedRecord, 'updated'> {
  return { updated: updatedTime(record.value, profile) };
}
