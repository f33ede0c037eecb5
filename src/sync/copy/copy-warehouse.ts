import type { Clock } from '../../model/clock.ts';
import { acquireLease } from '../../state/leases.ts';
import { INBOX_TABLES, OWN_TABLES } from '../../warehouse/copy/copied-tables.ts';
import { publish } from '../../warehouse/copy/publish.ts';
import { resumeOrBegin, type Receipt, type ReceiptRow } from '../../warehouse/copy/receipt.ts';
import { findReceipt, openStaging, targetUsed } from '../../warehouse/copy/staging.ts';
import { copyAll, compareAll, makeTables, type CopyPlace, type TableInSource } from './copy-tables.ts';
import { openSource, type CopySource } from './open-source.ts';
import { leaseAll, ownersOf } from './source-leases.ts';

/** The lease of the staging schema. */
const COPY = 'copy';

export interface CopyRequest {
  /** Address of a SQLite warehouse, and of the Postgres schema that it becomes. */
  from: string;
  to: string;
  /** Those of the source; what else the warehouse remembers comes along. */
  resources: readonly string[];
  clock: Clock;
  signal: AbortSignal;
  watcher: CopyWatcher;
}

/** Hears of every table that was copied, and of every one that was then found to be equal. */
export interface CopyWatcher {
  copied: (table: string) => void;
  compared: (row: ReceiptRow) => void;
}

export interface CopyReport {
  /** `already`: a copy of the source as it stands was finished before. */
  outcome: 'copied' | 'already';
  /** True where it went on with a copy that was interrupted. */
  isResumed: boolean;
  tables: ReceiptRow[];
}

/**
 * Carries a SQLite warehouse over to Postgres: all of it, compared value by value, before anybody sees it there. A copy
 * that was interrupted goes on where it was, unless the source was written to meanwhile. Nothing is ever changed in the
 * source. Throws `ConfigError` and `SyncError`.
 */
export async function copyWarehouse(request: CopyRequest): Promise<CopyReport> {
  const { from, to, clock, signal, watcher } = request;
  const opened = new AsyncDisposableStack();
  try {
    const source = await openSource(from, clock);
    opened.defer(() => source.close());
    const receipt = await findReceipt(to, clock);
    if (receipt !== null) return alreadyThere(receipt, await ownersOf(source.warehouse), to);
    const resources = await source.resources(request.resources);
    const leases = await leaseAll(source.warehouse, resources, clock);
    opened.defer(() => leases.release());
    const staging = await openStaging(to, clock);
    opened.defer(() => staging.close());
    const lease = await acquireLease(staging.warehouse, COPY, clock);
    opened.defer(() => lease.release());
    const isResumed = await resumeOrBegin(staging.database, leases.before, leases.now);
    const tables = await copyResources({ staging, lease, signal }, source, { resources, watcher });
    return { outcome: 'copied', isResumed, tables };
  } finally {
    await opened.disposeAsync();
  }
}

function alreadyThere(receipt: Receipt, owners: string, to: string): CopyReport {
  if (receipt.fingerprint !== owners) throw targetUsed(to, receipt.finishedAt);
  return { outcome: 'already', isResumed: false, tables: receipt.tables };
}

async function copyResources(
  place: CopyPlace,
  source: CopySource,
  { resources, watcher }: Pick<CopyRequest, 'resources' | 'watcher'>,
): Promise<ReceiptRow[]> {
  const { warehouse, inbox, close } = source.snapshots();
  try {
    const copied = await makeTables(place, source.warehouse, resources);
    const all: TableInSource[] = [...copied, ...OWN_TABLES].map((table) => ({ snapshot: warehouse, table }));
    if (inbox !== null) all.push(...INBOX_TABLES.map((table) => ({ snapshot: inbox, table })));
    await copyAll(place, all, watcher.copied);
    const tables = await compareAll(place, all, watcher.compared);
    await publish(place.staging, () => place.lease.proof(), inbox?.lastNumber('_sync_deliveries') ?? 0);
    return tables;
  } finally {
    close();
  }
}
