// Erases the requested records of a resource completely (`content-sync forget`): rows, deliveries, files, and what deleted
// rows leave in free pages of the databases.
import { inboxAddress, openInbox, openInboxToRead } from '../database/databases.ts';
import type { Inbox } from '../database/inbox.ts';
import type { ForgottenRow, OwnTables } from '../database/own-tables.ts';
import { readTables } from '../database/state/catalog.ts';
import { openErasures, unerasedRecords, updateErasure } from '../database/state/forgotten.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { App } from '../server/app.ts';
import { forgetDeliveries, type ForgottenDeliveries } from '../server/inbox/forget-deliveries.ts';
import { syncedResources } from '../server/source-supervisor.ts';
import { eraseUnreferenced } from '../sync/files/prune.ts';
import type { CliContext } from './command/context.ts';
import { whileOpen } from './command/sources.ts';

export interface Erasure {
  requests: readonly ForgottenRow[];
  /** Waiting deliveries that name other records too; the next `serve` erases them. */
  waiting: number;
  /**
   * What remains: `rows` because another process owns the resource, `files` in a store, or `pages` of the database,
   * because a reader keeps the log or dead rows. Null if nothing does.
   */
  remains: 'rows' | 'files' | 'pages' | null;
}

/** Erases the requested records from tables, inbox, file stores and free pages. Repeating it does no harm. */
export async function eraseCompletely(context: CliContext, app: App, resource: string): Promise<Erasure> {
  const { warehouse } = app;
  const { own } = warehouse;
  const isErased = await eraseRows(context, app, resource);
  const requests = await openErasures(own, resource);
  if (!isErased) return { requests, waiting: 0, remains: 'rows' };
  const ids = requests.flatMap(({ record_id }) => (record_id === null ? [] : [record_id]));
  const deliveries = await eraseDeliveries(context, app, { resource, ids, isDry: false });
  // The ids go before the cleaning, so that it removes them as well.
  await warehouse.apply(requests.map((row) => updateErasure(own, row, { record_id: null })));
  const areContentsErased = await eraseContents(context, app);
  const arePagesClean = await cleanPages(context, app, resource);
  const remains = areContentsErased ? (arePagesClean ? null : 'pages') : 'files';
  const cleaned_at = timestampText(context.clock.now());
  if (remains === null) await warehouse.apply(requests.map((row) => updateErasure(own, row, { cleaned_at })));
  return { requests, waiting: deliveries?.waiting ?? 0, remains };
}

const POLL_INTERVAL_MS = 500;
/** A scan of another process may take hours. */
const MAX_WAIT_MS = 10 * 60_000;

/**
 * Erases the rows of the requested records. If another process owns the resource, waits until it erases them (a `serve`,
 * within seconds) or ends. Returns false if that takes more than ten minutes, or the command is interrupted.
 */
async function eraseRows({ clock, signal, stderr }: CliContext, app: App, resource: string): Promise<boolean> {
  const until = clock.monotonic() + MAX_WAIT_MS;
  for (let isReported = false; ;) {
    try {
      await app.eraseForgotten(resource, signal);
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      if (!isReported)
        stderr.write(`content-sync: ${error.message}: it erases the records, or this command does once it has ended\n`);
      isReported = true;
    }
    if ((await unerasedRecords(app.warehouse.own, resource)).length === 0) return true;
    if (signal.aborted || clock.monotonic() >= until) return false;
    await clock.sleep(POLL_INTERVAL_MS);
  }
}

/** Erases the deliveries that name these records, or only counts them. Null for a source that has no inbox. */
export async function eraseDeliveries(
  { clock }: CliContext,
  { source }: App,
  request: { resource: string; ids: readonly string[]; isDry: boolean },
): Promise<ForgottenDeliveries | null> {
  const ids = new Set(request.ids);
  const rules = { webhooks: source.profile.webhooks, resources: syncedResources(source) };
  return withInbox(source.warehouse, clock, (inbox) => forgetDeliveries({ ...request, ids, inbox, rules, clock }));
}

/** Null for a source that has no inbox, which is not created. */
async function withInbox<T>(
  warehouse: string,
  clock: CliContext['clock'],
  work: (inbox: Inbox) => Promise<T>,
): Promise<T | null> {
  try {
    await (await openInboxToRead(warehouse, clock)).close();
  } catch (error) {
    if (error instanceof ConfigError && error.code === 'warehouse_missing') return null;
    throw error;
  }
  return whileOpen(await openInbox(inboxAddress(warehouse), clock), work);
}

const MAX_FILE_ATTEMPTS = 10;
const FILE_RETRY_MS = 500;

/** Erases the contents of files that only erased records had. Returns false if some remain. */
async function eraseContents({ clock, signal }: CliContext, app: App): Promise<boolean> {
  const { warehouse, files } = app;
  const settings = app.source.files;
  for (let attempt = 0; attempt < MAX_FILE_ATTEMPTS && !signal.aborted; attempt += 1) {
    try {
      const remaining = await eraseUnreferenced({
        warehouse,
        settings,
        storeAt: (store) => files.storeAt(store),
        clock,
      });
      return remaining === 0;
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      // Downloads in progress may take long, and a store may be unreachable for long.
      if (error.code !== 'lease_held') return false;
      await clock.sleep(FILE_RETRY_MS);
    }
  }
  return false;
}

/** Internal tables that may have contained ids or texts of the records. */
const CLEANED_TABLES = [
  '_sync_forgotten',
  '_sync_versions',
  '_sync_rejects',
  '_sync_deletes',
  '_sync_suspects',
  '_sync_files',
  '_sync_file_objects',
  '_sync_checkpoints',
  '_sync_feeds',
  '_sync_seen',
  '_sync_reshapes',
  '_sync_runs',
  '_sync_columns',
  '_sync_view_columns',
  '_sync_views',
  '_sync_notices',
  '_sync_verifications',
  '_sync_alerts',
  '_sync_pauses',
] as const satisfies readonly (keyof OwnTables)[];

/** Removes deleted data from the logs and free pages of warehouse and inbox. Returns false while a reader prevents it. */
async function cleanPages(context: CliContext, { warehouse, source }: App, resource: string): Promise<boolean> {
  const shape = await readTables(warehouse, resource);
  const tables = [...CLEANED_TABLES, ...(shape?.tables ?? []).map(({ name }) => name)];
  const isClean = await untilTrue(context, () => warehouse.clean(tables));
  const isInboxClean = await withInbox(source.warehouse, context.clock, (inbox) =>
    untilTrue(context, () => inbox.clean()),
  );
  return isClean && isInboxClean !== false;
}

const MAX_CLEAN_RETRIES = 3;
const CLEAN_RETRY_MS = 250;

/** Retries, because readers usually finish soon. */
async function untilTrue({ clock, signal }: CliContext, clean: () => Promise<boolean>): Promise<boolean> {
  for (let retries = 0; ; retries += 1) {
    if (await clean()) return true;
    if (retries === MAX_CLEAN_RETRIES || signal.aborted) return false;
    await clock.sleep(CLEAN_RETRY_MS);
  }
}
