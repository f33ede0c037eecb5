// The commands `warehouse backup`, `warehouse grants` and `warehouse rebuild`.
import path from 'node:path';
import type { Command } from 'commander';
import type { Readers, ReadersRequest } from '../database/database.ts';
import { changeReaders, databaseAt, openWarehouseToRead } from '../database/databases.ts';
import { resourcesWithOpenErasures } from '../database/state/forgotten.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatCount, formatNumber, formatBytes } from '../observe/format-values.ts';
import type { App } from '../server/app.ts';
import type { ResourceRebuilt } from '../sync/rebuild-resource.ts';
import { type CliContext, print, printReport } from './command/context.ts';
import {
  forEachSource,
  readSettings,
  resourceCommand,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
} from './command/sources.ts';

/** `content-sync warehouse backup`: writes a consistent copy of the warehouse into one file, also while `serve` runs. */
export function backupCommand(context: CliContext): Command {
  return sourceCommand('backup')
    .argument('<file>', 'File of the backup; {source} stands for the name of the source')
    .action(async (file: string, options: SourceOptions) => {
      if (Object.keys(readSettings(context, options).sources).length > 1 && !file.includes('{source}')) {
        throw new ConfigError('usage', 'a backup is of one source, and the config has several', {
          hint: 'choose one with --source, or name a file for each: {source}.backup',
        });
      }
      await forEachSource(context, options, [], async ({ source: { name, warehouse } }) => {
        const to = path.resolve(context.cwd, file.replaceAll('{source}', name));
        const taken_at = new Date(context.clock.now()).toISOString();
        const bytes = await databaseAt(warehouse).backUp(to, context.signal);
        const still_to_erase = await resourcesToErase(context, warehouse);
        const lines = [
          `${name}: ${to} contains the warehouse as of ${taken_at} (${formatBytes(bytes)})`,
          ...still_to_erase.map(
            (resource) =>
              `  → run content-sync forget ${resource}, then back up again: records that are to be erased may still be in the file`,
          ),
        ];
        printReport(context, { source: name, file: to, taken_at, bytes, still_to_erase }, lines.join('\n'));
      });
    });
}

/** Resources with records that are not completely erased yet. */
async function resourcesToErase({ clock }: CliContext, warehouse: string): Promise<string[]> {
  try {
    return await whileOpen(await openWarehouseToRead(warehouse, clock), ({ own }) => resourcesWithOpenErasures(own));
  } catch (error) {
    // A warehouse of a version that could not erase records; the next writer upgrades it.
    if (error instanceof ConfigError) return [];
    throw error;
  }
}

/** `content-sync warehouse grants`: lets a Postgres role read the copied tables and views, but no internal tables. */
export function grantsCommand(context: CliContext): Command {
  return sourceCommand('grants')
    .requiredOption('--role <name>', 'Role that may read; created without a login if missing')
    .option('--revoke', 'Revoke the rights; keeps the role')
    .action(async (options: SourceOptions & { role: string; revoke?: true }) => {
      const { role } = options;
      const request = { role, revoke: options.revoke === true };
      await forEachSource(context, options, [], async ({ source }) => {
        const readers = await changeReaders(source.warehouse, context.clock, request);
        const { schema, isNew: role_made, readable: tables, others: left_out } = readers;
        const report = { source: source.name, schema, role, revoked: request.revoke, role_made, tables, left_out };
        printReport(context, report, formatGrants(source.name, request, readers));
      });
    });
}

function formatGrants(
  source: string,
  { role, revoke }: ReadersRequest,
  { schema, isNew, readable, others }: Readers,
): string {
  const tables = `${formatNumber(readable.length)} tables and views of schema ${schema}`;
  const lines = revoke
    ? [`${role} may no longer read the ${tables}`]
    : [
        ...(isNew ? [`${role} was created without a login: GRANT it to the readers`] : []),
        `${role} may read the ${tables}, and those that are copied later`,
      ];
  if (others.length > 0) lines.push(`not changed, because they belong to other roles: ${others.join(', ')}`);
  return lines.map((line) => visibleText(`${source}: ${line}`)).join('\n');
}

const RETRY_INTERVAL_MS = 200;
const MAX_WAIT_MS = 4_000;

/** `content-sync warehouse rebuild`: rebuilds the tables from stored bodies, without a request. */
export function rebuildCommand(context: CliContext): Command {
  const dropHelp =
    'Only create the views again, with the types of the tables; drops and prints external views that are in the way';
  return resourceCommand('rebuild', context, async (chosen, options: SourceOptions & { dropViews?: true }) => {
    const { source, resources, log } = chosen;
    // Without a warehouse there is nothing to rebuild, and none is created.
    await (await openWarehouseToRead(source.warehouse, context.clock)).close();
    await withApp(context, { source, log }, async (app) => {
      if (options.dropViews === true) return dropViews(context, app, resources);
      const rebuilt: ResourceRebuilt[] = [];
      for (const resource of resources) {
        const one = await whenFree(context, resource, () => app.rebuild(resource, context.signal));
        rebuilt.push(one);
        if (context.json !== true) print(context, formatRebuilt(one));
      }
      if (context.json === true) print(context, { source: source.name, resources: rebuilt });
    });
  }).option('--drop-views', dropHelp);
}

/** Prints the definition of each dropped view, so that the user can create it again. */
async function dropViews(context: CliContext, app: App, resources: readonly string[]): Promise<void> {
  for (const resource of resources) {
    const dropped = await whenFree(context, resource, () => app.rebuildViews(resource, context.signal));
    const lines = [
      `${resource}: views created again, dropped ${formatCount(dropped.length, 'external view')}`,
      ...dropped.map(({ definition }) => definition),
    ];
    printReport(context, { resource, dropped }, lines.map(visibleText).join('\n'));
  }
}

/** Retries for some seconds, because a paused or idle process releases the resource soon. */
async function whenFree<T>({ clock, signal }: CliContext, resource: string, work: () => Promise<T>): Promise<T> {
  const until = clock.monotonic() + MAX_WAIT_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      if (signal.aborted || clock.monotonic() >= until) {
        const { code, message, recovery } = error;
        throw new SyncError(code, message, {
          recovery,
          hint: `stop serve for the rebuild, so that it takes a changed profile over too; if the profile is the same, content-sync control pause ${resource} before and content-sync control resume ${resource} after it is enough`,
        });
      }
    }
    await clock.sleep(RETRY_INTERVAL_MS);
  }
}

function formatRebuilt({ resource, records, bodiless, tables, gone, changed, masked }: ResourceRebuilt): string {
  const lines = [
    `${resource}: ${formatNumber(records)} records in ${tables.join(', ')}`,
    ...(changed.length === 0 ? [] : [`  new or of another type: ${changed.join(', ')}`]),
    ...(gone.length === 0 ? [] : [`  removed: ${gone.join(', ')}`]),
    ...(masked === 0 ? [] : [`  excluded fields were removed from ${formatNumber(masked)} stored bodies too`]),
    ...(bodiless === 0
      ? []
      : [
          `  → ${formatNumber(bodiless)} of them have no stored body, so only unchanged columns are filled: content-sync backfill ${resource} --restart copies them again`,
        ]),
  ];
  return lines.map(visibleText).join('\n');
}
