import path from 'node:path';
import { Command } from 'commander';
import { ConfigError, SyncError } from '../model/errors.ts';
import { bytesText, countOf } from '../observe/figures.ts';
import { refuseWhileOwned } from '../state/leases.ts';
import { backUpSource, openWarehouseToRead, restoreSource, sharedDatabase } from '../warehouse/databases.ts';
import type { CliContext } from './command/context.ts';
import { findServe } from './command/find-serve.ts';
import { print } from './command/output.ts';
import {
  chosenSettings,
  forEachSource,
  withSourceOptions,
  type ChosenSource,
  type SourceOptions,
} from './command/sources.ts';
import { whileOpen } from './command/with-app.ts';

type BackupOptions = SourceOptions & { json?: true };

const FILE = 'the file of the backup; {source} in it stands for the name of the source';

/** `content-sync backup FILE`: warehouse and inbox as of one moment in one file, also while `serve` runs. */
export function backupCommand(context: CliContext): Command {
  return withSourceOptions(new Command('backup'))
    .argument('<file>', FILE)
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (file: string, options: BackupOptions) => {
      const { clock, signal, version } = context;
      await forEachFile(context, options, file, async ({ source }, to) => {
        const about = { source: source.name, version, clock, signal };
        const { takenAt, bytes, hasInbox } = await backUpSource(source.warehouse, { to, ...about });
        const taken_at = new Date(takenAt).toISOString();
        if (options.json === true) return print(context, { source: source.name, file: to, taken_at, bytes });
        const what = hasInbox ? 'warehouse and inbox' : 'warehouse';
        print(context, `${source.name}: ${to} holds the ${what} as of ${taken_at} (${bytesText(bytes)})`);
      });
    });
}

/** `content-sync restore FILE`: puts the warehouse and the inbox of a backup in the place of those that are there. */
export function restoreCommand(context: CliContext): Command {
  return withSourceOptions(new Command('restore'))
    .argument('<file>', FILE)
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (file: string, options: BackupOptions) => {
      const { clock, signal } = context;
      await forEachFile(context, options, file, async (chosen, from) => {
        const { source } = chosen;
        await refuseInUse(context, chosen);
        const report = await restoreSource(source.warehouse, { from, source: source.name, clock, signal });
        const taken_at = new Date(report.takenAt).toISOString();
        const { deliveries } = report;
        if (options.json === true) return print(context, { source: source.name, file: from, taken_at, deliveries });
        print(context, `${source.name}: warehouse and inbox are as of ${taken_at}${laterText(deliveries)}`);
      });
    });
}

function laterText(deliveries: number | null): string {
  if (deliveries === 0) return '; the next walks fetch what has changed since';
  if (deliveries === null) return '; the inbox that was there could not be read: run content-sync backfill to be sure';
  return `; ${countOf(deliveries, 'delivery', 'deliveries')} from after that will be worked on again`;
}

async function forEachFile(
  context: CliContext,
  options: SourceOptions,
  file: string,
  work: (chosen: ChosenSource, file: string) => Promise<void>,
): Promise<void> {
  const sources = Object.keys(chosenSettings(context, options).sources);
  if (sources.length > 1 && !file.includes('{source}')) throw severalSources();
  await forEachSource(context, options, [], (chosen) =>
    work(chosen, path.resolve(context.cwd, file.replaceAll('{source}', chosen.source.name))),
  );
}

function severalSources(): ConfigError {
  return new ConfigError('usage', 'a backup is of one source, and the config has several', {
    hint: 'choose one with --source, or name a file for each: {source}.backup',
  });
}

/** A `serve` that has the source at rest has no file of it open, and works on it all the same. */
async function refuseInUse(context: CliContext, chosen: ChosenSource): Promise<void> {
  const { warehouse, name } = chosen.source;
  if (sharedDatabase(warehouse) !== null) return;
  if ((await findServe(context, chosen)) !== null) {
    throw new SyncError('warehouse_in_use', `a serve is running that keeps ${name}`, {
      recovery: 'stop',
      hint: 'stop it, then run the same command again',
    });
  }
  const reader = await openWarehouseToRead(warehouse, context.clock).catch(() => null);
  // There is none, or none that can be read: it is to be replaced for that very reason.
  if (reader !== null) await whileOpen(reader, ({ own }) => refuseWhileOwned(own, context.clock.now()));
}
