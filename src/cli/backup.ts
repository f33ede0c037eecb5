// The commands `warehouse backup` and `warehouse restore`.
import path from 'node:path';
import type { Command } from 'commander';
import type { SourceSettings } from '../config/settings.ts';
import type { RestoredParts, RestoreReport } from '../database/database.ts';
import { databaseAt, openWarehouseToRead, sharedDatabase } from '../database/databases.ts';
import type { ForgottenRow } from '../database/own-tables.ts';
import { readTables } from '../database/state/catalog.ts';
import {
  checkPrivacyKey,
  forgottenFingerprint,
  rememberForgotten,
  requestErasure,
  resourcesWithOpenErasures,
} from '../database/state/forgotten.ts';
import { refuseWhileOwned } from '../database/state/leases.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { countOf, formatBytes } from '../observe/figures.ts';
import { idsInDeliveries } from '../server/inbox/forget-deliveries.ts';
import { knownIds } from '../sync/forget/traces.ts';
import { type CliContext, EXIT_CODES, type ExitCode, printReport } from './command/context.ts';
import {
  type ChosenSource,
  findServe,
  forEachSource,
  readSettings,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';
import { eraseCompletely, eventRules } from './erase-records.ts';

const FILE = 'File of the backup; {source} stands for the name of the source';

/** `content-sync backup FILE`: writes a consistent copy of warehouse and inbox into one file, also while `serve` runs. */
export function backupCommand(context: CliContext): Command {
  return sourceCommand('backup')
    .argument('<file>', FILE)
    .action(async (file: string, options: SourceOptions) => {
      const { clock, signal, version } = context;
      await forEachFile(context, options, file, async ({ source }, to) => {
        const about = { source: source.name, version, clock, signal };
        const { takenAt, bytes, hasInbox } = await databaseAt(source.warehouse).backUp({ to, ...about });
        const taken_at = new Date(takenAt).toISOString();
        const open = await stillToErase(context, source);
        const what = hasInbox ? 'warehouse and inbox' : 'warehouse';
        const lines = [
          `${source.name}: ${to} contains the ${what} as of ${taken_at} (${formatBytes(bytes)})`,
          ...open.map(
            (resource) =>
              `  → run content-sync forget ${resource}, then back up again: records that are to be erased may still be in the file`,
          ),
        ];
        printReport(
          context,
          { source: source.name, file: to, taken_at, bytes, still_to_erase: open },
          lines.join('\n'),
        );
      });
    });
}

/** `content-sync restore FILE`: replaces the warehouse by that of a backup. */
export function restoreCommand(context: CliContext): Command {
  return sourceCommand('restore')
    .argument('<file>', FILE)
    .action(async (file: string, options: SourceOptions) => {
      const { clock, signal } = context;
      await forEachFile(context, options, file, async (chosen, from) => {
        const { source } = chosen;
        await refuseInUse(context, chosen);
        const report = await databaseAt(source.warehouse).restore({
          from,
          source: source.name,
          clock,
          signal,
          carryForgotten: (restored, rows) => carryForgotten(context, source, restored, rows),
        });
        const taken_at = new Date(report.takenAt).toISOString();
        const { deliveries, forgotten } = report;
        const lines = [
          `${source.name}: the warehouse is as of ${taken_at}${laterText(deliveries)}`,
          ...forgottenLines(source, report),
        ];
        printReport(context, { source: source.name, file: from, taken_at, deliveries, forgotten }, lines.join('\n'));
        return eraseAgain(context, chosen);
      });
    });
}

/** Resources with records that are not completely erased yet. */
async function stillToErase({ clock }: CliContext, { warehouse }: SourceSettings): Promise<string[]> {
  try {
    return await whileOpen(await openWarehouseToRead(warehouse, clock), ({ own }) => resourcesWithOpenErasures(own));
  } catch (error) {
    // A warehouse of a version that could not erase records; the next writer upgrades it.
    if (error instanceof ConfigError) return [];
    throw error;
  }
}

/** Formats the number of records that the restore erased again. Without a `privacy_key` none was ever erased. */
function forgottenLines({ privacy_key }: SourceSettings, { takenAt, forgotten }: RestoreReport): string[] {
  const since = new Date(takenAt).toISOString();
  if (forgotten === null) {
    return privacy_key === undefined
      ? []
      : [
          `  → erase records that were erased after ${since} again (content-sync forget) before you start serve: the replaced warehouse was missing or unreadable`,
        ];
  }
  const they = forgotten === 1 ? 'it is' : 'they are';
  return forgotten === 0
    ? []
    : [`  ${countOf(forgotten, 'record', 'records')} of the backup had been erased since: ${they} erased again`];
}

/** Erases again what was erased since the backup, or requested to be erased when it was taken. */
async function eraseAgain(context: CliContext, { source, log }: ChosenSource): Promise<ExitCode> {
  const resources = await stillToErase(context, source);
  if (resources.length === 0) return EXIT_CODES.ok;
  return withApp(context, { source, log }, async (app) => {
    let code: ExitCode = EXIT_CODES.ok;
    for (const resource of resources) {
      if (!Object.hasOwn(app.source.profile.resources, resource)) continue;
      if ((await eraseCompletely(context, app, resource)).remains === null) continue;
      code = EXIT_CODES.partial;
      context.stderr.write(
        `content-sync: ${resource}: run content-sync forget ${resource}: records that were erased before are not erased completely\n`,
      );
    }
    return code;
  });
}

function laterText(deliveries: number | null): string {
  if (deliveries === 0) return '; the next runs fetch what has changed since';
  if (deliveries === null) return ', and so is the inbox, which could not be read: run content-sync backfill';
  return `; ${countOf(deliveries, 'delivery', 'deliveries')} processed since will be processed again`;
}

async function forEachFile(
  context: CliContext,
  options: SourceOptions,
  file: string,
  work: (chosen: ChosenSource, file: string) => Promise<ExitCode | void>,
): Promise<void> {
  const sources = Object.keys(readSettings(context, options).sources);
  if (sources.length > 1 && !file.includes('{source}')) {
    throw new ConfigError('usage', 'a backup is of one source, and the config has several', {
      hint: 'choose one with --source, or name a file for each: {source}.backup',
    });
  }
  await forEachSource(context, options, [], (chosen) =>
    work(chosen, path.resolve(context.cwd, file.replaceAll('{source}', chosen.source.name))),
  );
}

/** Asks `serve` too, because it keeps idle sources closed and still owns them. */
async function refuseInUse(context: CliContext, chosen: ChosenSource): Promise<void> {
  const { warehouse, name } = chosen.source;
  if (sharedDatabase(warehouse) !== null) return;
  if ((await findServe(chosen)) !== null) {
    throw new SyncError('warehouse_in_use', `a running serve keeps ${name}`, {
      recovery: 'stop',
      hint: 'stop it, then run the same command again',
    });
  }
  const reader = await openWarehouseToRead(warehouse, context.clock).catch(() => null);
  // A missing or unreadable warehouse may be the reason for the restore.
  if (reader !== null) await whileOpen(reader, ({ own }) => refuseWhileOwned(own, context.clock.now()));
}

/**
 * Copies the erased records of a replaced warehouse to the restored one, and requests those that it contains to be
 * erased again. Returns how many these are. Throws `ConfigError('privacy_key')` if the settings cannot recognize them.
 */
async function carryForgotten(
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
    const ids = new Set<string>();
    for await (const id of storedIds(source, restored, resource)) {
      if (fingerprints.has(forgottenFingerprint(key, name, resource, id))) ids.add(id);
    }
    found += ids.size;
    const request = { resource, ids: [...ids], version, at };
    if (ids.size > 0) await warehouse.apply(requestErasure(warehouse.own, { source: name, key }, request));
  }
  return found;
}

/** The ids of a resource's records in a restored warehouse and its inbox. */
async function* storedIds(
  source: SourceSettings,
  { warehouse, inbox }: RestoredParts,
  resource: string,
): AsyncIterable<string> {
  const profile = source.profile.resources[resource];
  if (profile === undefined) return;
  yield* knownIds({ warehouse, resource, shape: await readTables(warehouse, resource), profile });
  if (inbox !== null) yield* idsInDeliveries(inbox, eventRules(source), resource);
}
