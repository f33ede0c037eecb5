import { Command } from 'commander';
import { openWarehouse, openWarehouseToRead } from '../../database/databases.ts';
import { ConfigError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { bytesText, countOf, countText } from '../../observe/figures.ts';
import type { KeptFiles } from '../../sync/files/owned-stores.ts';
import { type FilesPruned, pruneFiles } from '../../sync/files/prune.ts';
import { type FaultyFile, FILE_FAULTS, type FilesVerified, verifyFiles } from '../../sync/files/verify-files.ts';
import type { CliContext } from '../command/context.ts';
import { EXIT_CODES } from '../command/exit-code.ts';
import { print } from '../command/output.ts';
import { type ChosenSource, forEachSource, type SourceOptions, withSourceOptions } from '../command/sources.ts';
import { whileOpen } from '../command/with-app.ts';
import { getCommand } from './get-file.ts';
import { filesStatus, statusText } from './status.ts';

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
  if (Object.keys(source.files.kept).length === 0) {
    throw new ConfigError('files_off', `${source.name} keeps no files`, {
      hint: 'name a place for them in files.store of the source, and the resources that have some in its profile (files)',
    });
  }
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

/** What a pruning removed and kept, for a person. */
function prunedText(source: string, { rows, objects, bytes, unfinished, kept }: FilesPruned, isDry: boolean): string {
  const removed = [
    `${countOf(objects, 'content')} (${bytesText(bytes)})`,
    countOf(rows, 'row of an earlier content', 'rows of earlier contents'),
    ...(unfinished === null ? [] : [countOf(unfinished, 'unfinished download')]),
  ];
  const recent = kept.recent_objects;
  const reasons: readonly (readonly [number, string])[] = [
    [
      kept.named.objects,
      `${countOf(kept.named.objects, 'content')} (${bytesText(kept.named.bytes)}): files show them, or did`,
    ],
    [kept.history, `${countOf(kept.history, 'earlier content')}: their resource has history: all`],
    [kept.recent_rows, `${countOf(kept.recent_rows, 'earlier content')}: shown until less than files.grace ago`],
    [
      recent.objects,
      `${countOf(recent.objects, 'content')} (${bytesText(recent.bytes)}) that nothing names: came less than files.grace ago`,
    ],
    [
      kept.unknown_rows,
      `${countOf(kept.unknown_rows, 'earlier content')}: of resources that the profile does not have`,
    ],
    [kept.stores.length, `all in ${kept.stores.join(', ')}: the settings no longer name it`],
  ];
  const lines = [
    `${source}: ${isDry ? 'would remove' : 'removed'} ${removed.join(', ')}`,
    ...reasons.filter(([count]) => count > 0).map(([, reason]) => `  kept ${reason}`),
  ];
  return lines.map(visibleText).join('\n');
}

/** What a verification of files has found, for a person. */
function verifiedText(source: string, verified: FilesVerified): string {
  const { mode, verdict, objects, files, bytes, faults, orphans, repaired } = verified;
  const said = verdict === 'equal' ? 'whole' : 'NOT WHOLE';
  const kinds = Object.entries(faults.by_kind).map(
    ([kind, count]) => `${countText(count)} × ${kind}: ${MEANINGS[kind] ?? kind}`,
  );
  const lines = [
    `${source}: ${said} (${mode}): ${countOf(objects, 'content')} of ${countOf(files, 'file')}, ${bytesText(bytes)}`,
    ...kinds.map((line) => `  ${line}`),
    ...faults.first.map((fault) => `    ${faultText(fault)}`),
    ...(orphans.objects === 0
      ? []
      : [
          `  ${countOf(orphans.objects, 'content')} that no file names, ${bytesText(orphans.bytes)}: content-sync files prune`,
        ]),
    ...(repaired === null ? adviceFor(verified) : repairedLines(repaired)),
  ];
  return lines.map(visibleText).join('\n');
}

const MEANINGS: Readonly<Record<string, string>> = FILE_FAULTS;

function faultText({ kind, store, sha256, files }: FaultyFile): string {
  const shown = files.map(({ resource, record_id, field, position, valid_to }) => {
    const where = position === 0 ? field : `${field} ${position}`;
    return `${resource} ${record_id} ${where}${valid_to === null ? '' : `, until ${valid_to.slice(0, 19)} UTC`}`;
  });
  return `${kind} ${sha256 ?? store}: ${shown.join('; ')}`;
}

function adviceFor({ faults }: FilesVerified): string[] {
  const { missing = 0, size = 0, content = 0 } = faults.by_kind;
  return missing + size + content === 0 ? [] : ['  → content-sync files verify --repair has them fetched again'];
}

function repairedLines({ again, left }: NonNullable<FilesVerified['repaired']>): string[] {
  return [
    ...(again === 0 ? [] : [`  ${countOf(again, 'file')} will be fetched again by the next run`]),
    ...(left === 0
      ? []
      : [
          `  ${countText(left)} left: only earlier contents show them, which cannot be fetched again, or nobody says where their store is`,
        ]),
  ];
}
