import type { App } from '../../app.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { syncedResources } from '../../serve/start-drain.ts';
import { readTables } from '../../state/column-catalog.ts';
import { noteForgotten, openRequests } from '../../state/forgotten.ts';
import { eraseUnnamed } from '../../sync/files/prune.ts';
import { forgetDeliveries, type ForgottenDeliveries } from '../../trigger/drain/forget-deliveries.ts';
import { inboxAddress, openInbox, openInboxToRead } from '../../warehouse/databases.ts';
import type { ForgottenRow, OwnTables } from '../../warehouse/own-tables.ts';
import type { CliContext } from '../command/context.ts';
import { whileOpen } from '../command/with-app.ts';

/** What is left of records that are erased from the tables. */
export interface FinishedForgetting {
  /** As they are remembered from now on. */
  rows: readonly ForgottenRow[];
  /** Deliveries that wait, and are erased by the next `serve`. */
  waiting: number;
  /** False while a reader keeps the log, or dead rows, from being taken away. */
  isClean: boolean;
  /** True if contents of files are still in a store. */
  areFilesLeft: boolean;
}

/** Own tables that held ids or bodies. */
const TOUCHED = [
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
] as const satisfies readonly (keyof OwnTables)[];

const ATTEMPTS = 3;
const PAUSE_MS = 250;
const FILES_ATTEMPTS = 10;
const FILES_PAUSE_MS = 500;

/** Deliveries, log and free pages of the records that are erased from the tables of a resource. Done again, it does no harm. */
export async function finishForgetting(context: CliContext, app: App, resource: string): Promise<FinishedForgetting> {
  const { own } = app.warehouse;
  const { clock } = context;
  const open = await openRequests(own, resource);
  const ids = open.flatMap(({ record_id }) => (record_id === null ? [] : [record_id]));
  const deliveries = await withInbox(context, app, resource, ids, false);
  const noted = open.map((row) => Object.assign(row, { counts: withDeliveries(row, deliveries), record_id: null }));
  // The ids go here, so that cleaning takes them away as well.
  await app.warehouse.apply(noted.map((row) => noteForgotten(own, row, { record_id: null, counts: row.counts })));
  const areFilesLeft = !(await eraseContents(context, app));
  const isClean = (await cleanAll(context, app, resource)) && !areFilesLeft;
  const cleaned_at = isClean ? timestampText(clock.now()) : null;
  if (isClean) await app.warehouse.apply(noted.map((row) => noteForgotten(own, row, { cleaned_at })));
  return { rows: noted, waiting: deliveries?.waiting ?? 0, isClean, areFilesLeft };
}

/** Contents of files that only records showed which are forgotten. True if none is left. */
async function eraseContents({ clock, signal }: CliContext, { warehouse, source, files }: App): Promise<boolean> {
  for (let left = FILES_ATTEMPTS; left > 0 && !signal.aborted; left -= 1) {
    try {
      const storeAt: typeof files.storeAt = (address) => files.storeAt(address);
      return (await eraseUnnamed({ warehouse, settings: source.files, storeAt, clock })) === 0;
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      // Those that are being fetched may take long; a store that cannot be reached, too.
      if (error.code !== 'lease_held') return false;
      await clock.sleep(FILES_PAUSE_MS);
    }
  }
  return false;
}

function withDeliveries({ record_id, counts }: ForgottenRow, found: ForgottenDeliveries | null): string | null {
  const more = record_id === null ? 0 : (found?.erased.get(record_id) ?? 0);
  if (more === 0) return counts;
  const known: unknown = JSON.parse(counts ?? '{}');
  return JSON.stringify({ ...(typeof known === 'object' ? known : {}), deliveries: more });
}

/** Null for a source that has no inbox. */
export async function withInbox(
  { clock }: CliContext,
  { source }: App,
  resource: string,
  ids: readonly string[],
  isDry: boolean,
): Promise<ForgottenDeliveries | null> {
  if (!(await hasInbox(source.warehouse, clock))) return null;
  const rules = { webhooks: source.profile.webhooks, resources: syncedResources(source) };
  const inbox = await openInbox(inboxAddress(source.warehouse), clock);
  return whileOpen(inbox, () => forgetDeliveries({ inbox, rules, resource, ids: new Set(ids), isDry, clock }));
}

async function hasInbox(warehouse: string, clock: CliContext['clock']): Promise<boolean> {
  try {
    await (await openInboxToRead(warehouse, clock)).close();
    return true;
  } catch (error) {
    if (error instanceof ConfigError && error.code === 'inbox_missing') return false;
    throw error;
  }
}

async function cleanAll(context: CliContext, { warehouse, source }: App, resource: string): Promise<boolean> {
  const { clock } = context;
  const shape = await readTables(warehouse, resource);
  const tables = [...TOUCHED, ...(shape?.tables ?? []).map(({ name }) => name)];
  const clean = await untilClean(context, () => warehouse.clean(tables));
  if (!(await hasInbox(source.warehouse, clock))) return clean;
  const inbox = await openInbox(inboxAddress(source.warehouse), clock);
  return whileOpen(inbox, async () => (await untilClean(context, () => inbox.clean())) && clean);
}

/** A reader is mostly done within a moment. */
async function untilClean({ clock, signal }: CliContext, clean: () => Promise<boolean>): Promise<boolean> {
  for (let left = ATTEMPTS; ; left -= 1) {
    if (await clean()) return true;
    if (left === 0 || signal.aborted) return false;
    await clock.sleep(PAUSE_MS);
  }
}
