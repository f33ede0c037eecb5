import type { SourceSettings } from '../config/settings.ts';
import type { RestoredParts } from '../database/database.ts';
import { inboxAddress, openInbox, openInboxToRead } from '../database/databases.ts';
import type { Inbox } from '../database/inbox.ts';
import type { ForgottenRow, OwnTables } from '../database/own-tables.ts';
import { readTables } from '../database/state/catalog.ts';
import {
  askToForget,
  checkPrivacyKey,
  forgottenFingerprint,
  noteForgotten,
  openRequests,
  rememberForgotten,
  unerased,
} from '../database/state/forgotten.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { App } from '../server/app.ts';
import { forgetDeliveries, type ForgottenDeliveries, idsInDeliveries } from '../server/inbox/forget-deliveries.ts';
import { syncedResources } from '../server/keeper.ts';
import { eraseUnnamed } from '../sync/files/prune.ts';
import { knownIds } from '../sync/forget/traces.ts';
import type { CliContext } from './command/context.ts';
import { whileOpen } from './command/sources.ts';

/**
 * Has a restored warehouse know of the records that were erased in the one that it replaces, and asks for those that are
 * in it to be erased again. Returns how many these are. Throws `ConfigError('privacy_key')` if the settings cannot tell
 * them.
 */
export async function carryForgotten(
  { clock, version }: CliContext,
  source: SourceSettings,
  restored: RestoredParts,
  forgotten: readonly ForgottenRow[],
): Promise<number> {
  const { warehouse } = restored;
  const { name, privacy_key: key } = source;
  await warehouse.apply(rememberForgotten(warehouse.own, forgotten));
  await checkPrivacyKey(warehouse.own, { source: name, key });
  if (key === undefined) return 0;
  const at = timestampText(clock.now());
  let found = 0;
  for (const [resource, rows] of Map.groupBy(forgotten, (row) => row.resource)) {
    const fingerprints = new Set(rows.map(({ fingerprint }) => fingerprint));
    const isErased = (id: string): boolean => fingerprints.has(forgottenFingerprint(key, name, resource, id));
    const ids = await idsThat(isErased, source, restored, resource);
    found += ids.length;
    const asked = { resource, ids, version, at };
    if (ids.length > 0) await warehouse.apply(askToForget(warehouse.own, { source: name, key }, asked));
  }
  return found;
}

async function idsThat(
  isErased: (id: string) => boolean,
  source: SourceSettings,
  { warehouse, inbox }: RestoredParts,
  resource: string,
): Promise<string[]> {
  const profile = source.profile.resources[resource];
  if (profile === undefined) return [];
  const ids = new Set<string>();
  const shape = await readTables(warehouse, resource);
  for await (const id of knownIds({ warehouse, resource, shape, profile })) if (isErased(id)) ids.add(id);
  if (inbox === null) return [...ids];
  const rules = { webhooks: source.profile.webhooks, resources: syncedResources(source) };
  for await (const id of idsInDeliveries(inbox, rules, resource)) if (isErased(id)) ids.add(id);
  return [...ids];
}

/** Erases what is still to be erased. Returns the resources of which something remains. */
export async function eraseAgain(context: CliContext, app: App): Promise<string[]> {
  const left: string[] = [];
  for (const resource of Object.keys(app.source.profile.resources)) {
    if ((await openRequests(app.warehouse.own, resource)).length === 0) continue;
    const isErased = await eraseWhenFree(context, app, resource);
    const isDone = isErased && (await finishForgetting(context, app, resource)).isClean;
    if (!isDone) left.push(resource);
  }
  return left;
}

/** The result of erasing the other traces of records that are erased from the tables. */
interface FinishedForgetting {
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
] as const satisfies readonly (keyof OwnTables)[];

const MAX_CLEAN_ATTEMPTS = 3;
const CLEAN_RETRY_MS = 250;
const MAX_FILE_ATTEMPTS = 10;
const FILE_RETRY_MS = 500;

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
  for (let left = MAX_FILE_ATTEMPTS; left > 0 && !signal.aborted; left -= 1) {
    try {
      const storeAt: typeof files.storeAt = (address) => files.storeAt(address);
      return (await eraseUnnamed({ warehouse, settings: source.files, storeAt, clock })) === 0;
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      // Downloads in flight may take long, and so may an unreachable store.
      if (error.code !== 'lease_held') return false;
      await clock.sleep(FILE_RETRY_MS);
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
  const rules = { webhooks: source.profile.webhooks, resources: syncedResources(source) };
  return inInbox(source.warehouse, clock, (inbox) =>
    forgetDeliveries({ inbox, rules, resource, ids: new Set(ids), isDry, clock }),
  );
}

/** Null for a source that has no inbox, which is not made. */
async function inInbox<T>(
  warehouse: string,
  clock: CliContext['clock'],
  work: (inbox: Inbox) => Promise<T>,
): Promise<T | null> {
  try {
    await (await openInboxToRead(warehouse, clock)).close();
  } catch (error) {
    if (error instanceof ConfigError && error.code === 'inbox_missing') return null;
    throw error;
  }
  return whileOpen(await openInbox(inboxAddress(warehouse), clock), work);
}

async function cleanAll(context: CliContext, { warehouse, source }: App, resource: string): Promise<boolean> {
  const { clock } = context;
  const shape = await readTables(warehouse, resource);
  const tables = [...CLEANED_TABLES, ...(shape?.tables ?? []).map(({ name }) => name)];
  const clean = await untilClean(context, () => warehouse.clean(tables));
  const isInboxClean = await inInbox(source.warehouse, clock, (inbox) => untilClean(context, () => inbox.clean()));
  return clean && isInboxClean !== false;
}

/** Retries, because readers usually finish soon. */
async function untilClean({ clock, signal }: CliContext, clean: () => Promise<boolean>): Promise<boolean> {
  for (let left = MAX_CLEAN_ATTEMPTS; ; left -= 1) {
    if (await clean()) return true;
    if (left === 0 || signal.aborted) return false;
    await clock.sleep(CLEAN_RETRY_MS);
  }
}

const POLL_INTERVAL_MS = 500;
/** A scan of another process may take hours. */
const MAX_WAIT_MS = 10 * 60_000;

/**
 * Erases the requested records. If another process owns the resource, waits until it erases them (a `serve`, within
 * seconds) or ends. Returns false if that takes more than ten minutes, or the command is interrupted.
 */
export async function eraseWhenFree(
  { clock, signal, stderr }: CliContext,
  app: App,
  resource: string,
): Promise<boolean> {
  const until = clock.monotonic() + MAX_WAIT_MS;
  for (let isTold = false; ;) {
    try {
      await app.eraseForgotten(resource, signal);
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      if (!isTold)
        stderr.write(`content-sync: ${error.message}: it erases the records, or this command does once it has ended\n`);
      isTold = true;
    }
    if ((await unerased(app.warehouse.own, resource)).length === 0) return true;
    if (signal.aborted || clock.monotonic() >= until) return false;
    await clock.sleep(POLL_INTERVAL_MS);
  }
}
