import { Command } from 'commander';
import { ConfigError } from '../../model/errors.ts';
import { pruneFiles } from '../../sync/files/prune.ts';
import type { KeptFiles } from '../../sync/files/owned-stores.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { verifyFiles } from '../../sync/files/verify-files.ts';
import { openWarehouse, openWarehouseToRead } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { EXIT_CODES } from '../command/exit-code.ts';
import { print } from '../command/output.ts';
import { forEachSource, withSourceOptions, type ChosenSource, type SourceOptions } from '../command/sources.ts';
import { whileOpen } from '../command/with-app.ts';
import { getCommand } from './get-file.ts';
import { prunedText } from './pruned-text.ts';
import { filesStatus, statusText } from './status.ts';
import { verifiedText } from './verified-text.ts';

type FilesOptions = SourceOptions & { json?: true };

/** `content-sync files`: pictures and other files of records, as they are kept in their stores. */
export function filesCommand(context: CliContext): Command {
  return new Command('files')
    .helpCommand(false)
    .addCommand(statusCommand(context))
    .addCommand(verifyCommand(context))
    .addCommand(pruneCommand(context))
    .addCommand(getCommand(context));
}

function inSources(name: string, about: string): Command {
  return withSourceOptions(new Command(name))
    .description(about)
    .option('--json', 'print one JSON object per source on stdout');
}

function statusCommand(context: CliContext): Command {
  return inSources(
    'status',
    'how many are here, wait, failed, were refused or are gone, and why; asks only the warehouse',
  )
    .argument('[resource...]', 'only these resources of the profile')
    .action(async (names: string[], options: FilesOptions) => {
      await forEachSource(context, options, names, async ({ source, resources }) => {
        const warehouse = await openWarehouseToRead(source.warehouse, context.clock);
        const status = await whileOpen(warehouse, () => filesStatus(warehouse.own, source, resources));
        print(context, options.json === true ? status : statusText(status));
      });
    });
}

type VerifyOptions = FilesOptions & { quick?: true; repair?: true };

function verifyCommand(context: CliContext): Command {
  return inSources('verify', 'is every file in its store, whole and as its hash says? Ends with 3 if one is not')
    .argument('[resource...]', 'only files of these resources; all of them where absent, which finds orphans too')
    .option('--quick', 'read none: only that each is there, and its size')
    .option('--repair', 'have what is missing or damaged fetched again by the next run')
    .action(async (names: string[], { quick, repair, json, ...options }: VerifyOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        const resources = names.length === 0 ? null : chosen.resources;
        const request = { resources, isQuick: quick === true, isRepaired: repair === true };
        const verified = await withFiles(context, chosen, (kept) => verifyFiles(kept, request));
        const { name } = chosen.source;
        print(context, json === true ? { source: name, ...verified } : verifiedText(name, verified));
        return verified.verdict === 'equal' ? EXIT_CODES.ok : EXIT_CODES.partial;
      });
    });
}

type PruneOptions = FilesOptions & { dryRun?: true };

function pruneCommand(context: CliContext): Command {
  return inSources('prune', 'remove what no version of a record refers to any more, after `files.grace`')
    .option('--dry-run', 'only say what would be removed, and what is kept and why')
    .action(async ({ dryRun, json, ...options }: PruneOptions) => {
      await forEachSource(context, options, [], async (chosen) => {
        const { profile, name } = chosen.source;
        const isDry = dryRun === true;
        const pruned = await withFiles(context, chosen, (kept) => pruneFiles({ ...kept, profile, isDry }));
        print(context, json === true ? { source: name, dry_run: isDry, ...pruned } : prunedText(name, pruned, isDry));
      });
    });
}

/** Opens the warehouse and, as they are needed, the stores. Throws `ConfigError` where no files are kept, or nothing was copied yet. */
async function withFiles<T>(
  context: CliContext,
  { source }: ChosenSource,
  work: (kept: KeptFiles) => Promise<T>,
): Promise<T> {
  const { clock, signal } = context;
  if (Object.keys(source.files.kept).length === 0) throw noFiles(source.name);
  // Nothing is made where no copy is.
  await (await openWarehouseToRead(source.warehouse, clock)).close();
  const warehouse = await openWarehouse(source.warehouse, clock);
  return whileOpen(warehouse, () =>
    whileOpen(openStores({ clock, signal, isMade: false }), (stores) =>
      work({
        warehouse,
        settings: source.files,
        storeAt: (address) => stores.at(address, source.files),
        clock,
        signal,
      }),
    ),
  );
}

/** Of a source that keeps none. */
export function noFiles(source: string): ConfigError {
  return new ConfigError('files_off', `${source} keeps no files`, {
    hint: 'name a place for them in files.store of the source, and the resources that have some in its profile (files)',
  });
}
