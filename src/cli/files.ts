// `content-sync files`: status, verification and pruning of the files of records (images and others) in their stores.
import { Command } from 'commander';
import type { Kysely } from 'kysely';
import type { SourceSettings } from '../config/settings.ts';
import { openWarehouse, openWarehouseToRead } from '../database/databases.ts';
import { FILE_STATUSES, type FileStatus, type OwnTables } from '../database/own-tables.ts';
import { countFiles, type FileFailure, readFailedFiles, readNextDue } from '../database/state/files.ts';
import { ConfigError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { openStores } from '../object-store/open-stores.ts';
import { formatBytes, formatCount, formatNumber } from '../observe/format-values.ts';
import type { SourceFiles } from '../sync/files/owned-stores.ts';
import { type FilesPruned, pruneFiles } from '../sync/files/prune.ts';
import { type FaultyFile, FILE_FAULTS, type FilesVerified, verifyFiles } from '../sync/files/verify-files.ts';
import { alignedLines, type CliContext, EXIT_CODES, printReport } from './command/context.ts';
import {
  type ChosenSource,
  forEachSource,
  resourceCommand,
  sourceCommand,
  type SourceOptions,
  whileOpen,
} from './command/sources.ts';

export function filesCommand(context: CliContext): Command {
  return new Command('files')
    .helpCommand(false)
    .addCommand(statusCommand(context))
    .addCommand(verifyCommand(context))
    .addCommand(pruneCommand(context));
}

function statusCommand(context: CliContext): Command {
  return resourceCommand('status', context, async ({ source, resources }) => {
    const warehouse = await openWarehouseToRead(source.warehouse, context.clock);
    const status = await whileOpen(warehouse, () => filesStatus(warehouse.own, source, resources));
    printReport(context, status, formatStatus(status));
  }).description('Count files by status, with the reasons of failures; reads only the warehouse');
}

function verifyCommand(context: CliContext): Command {
  return sourceCommand('verify')
    .description('Verify that every file is in its store and matches its hash; exit code 3 if one does not')
    .option('--repair', 'Have the next run fetch missing and damaged files again')
    .action(async ({ repair, ...options }: SourceOptions & { repair?: true }) => {
      await forEachSource(context, options, [], async (chosen) => {
        const verified = await withFiles(context, chosen, (files) => verifyFiles(files, repair === true));
        const { name } = chosen.source;
        printReport(context, { source: name, ...verified }, formatVerified(name, verified));
        return verified.verdict === 'equal' ? EXIT_CODES.ok : EXIT_CODES.partial;
      });
    });
}

function pruneCommand(context: CliContext): Command {
  return sourceCommand('prune')
    .description('Remove files that no version of a record refers to, after `files.grace`')
    .action(async (options: SourceOptions) => {
      await forEachSource(context, options, [], async (chosen) => {
        const { profile, name } = chosen.source;
        const pruned = await withFiles(context, chosen, (files) => pruneFiles(files, profile));
        printReport(context, { source: name, ...pruned }, formatPruned(name, pruned));
      });
    });
}

/**
 * Passes the warehouse and the stores of the files of a source to `work`. Throws `ConfigError` if the source stores no
 * files, or has no warehouse yet.
 */
async function withFiles<T>(
  context: CliContext,
  { source }: ChosenSource,
  work: (files: SourceFiles) => Promise<T>,
): Promise<T> {
  const { clock, signal } = context;
  if (Object.keys(source.files.kept).length === 0) {
    throw new ConfigError('settings_invalid', `${source.name} stores no files`, {
      hint: 'set files.store of the source, and `files` of the resources in its profile',
    });
  }
  // Throws without a warehouse, which `openWarehouse` would create.
  await (await openWarehouseToRead(source.warehouse, clock)).close();
  const warehouse = await openWarehouse(source.warehouse, clock);
  return whileOpen(warehouse, () =>
    whileOpen(openStores(source.files, { clock, signal, mayCreate: false }), (stores) =>
      work({ warehouse, settings: source.files, storeAt: (address) => stores.at(address), clock, signal }),
    ),
  );
}

function formatPruned(
  source: string,
  { rows, objects, bytes, unfinished, unnamed_stores: stores }: FilesPruned,
): string {
  const removed = [
    `${formatCount(objects, 'content')} (${formatBytes(bytes)})`,
    formatCount(rows, 'row of an earlier content', 'rows of earlier contents'),
    formatCount(unfinished, 'unfinished download'),
  ];
  const lines = [
    `${source}: removed ${removed.join(', ')}`,
    ...stores.map((store) => `  nothing of ${store}: the settings no longer name it`),
  ];
  return lines.map(visibleText).join('\n');
}

function formatVerified(source: string, verified: FilesVerified): string {
  const { verdict, objects, files, bytes, faults, orphans, repaired } = verified;
  const state = verdict === 'equal' ? 'whole' : 'NOT WHOLE';
  const kinds = Object.entries(faults.by_kind).map(
    ([kind, count]) => `${formatNumber(count)} × ${kind}: ${MEANINGS[kind] ?? kind}`,
  );
  const unreferenced = `${formatCount(orphans.objects, 'content')} without a file, ${formatBytes(orphans.bytes)}`;
  const lines = [
    `${source}: ${state}: ${formatCount(objects, 'content')} of ${formatCount(files, 'file')}, ${formatBytes(bytes)}`,
    ...kinds.map((line) => `  ${line}`),
    ...faults.first.map((fault) => `    ${formatFault(fault)}`),
    ...(orphans.objects === 0 ? [] : [`  ${unreferenced}: run content-sync files prune`]),
    ...(repaired === null ? adviceFor(verified) : repairedLines(repaired)),
  ];
  return lines.map(visibleText).join('\n');
}

const MEANINGS: Readonly<Record<string, string>> = FILE_FAULTS;

function formatFault({ kind, store, sha256, files }: FaultyFile): string {
  const names = files.map(({ resource, record_id, field, position, valid_to }) => {
    const where = position === 0 ? field : `${field} ${position}`;
    return `${resource} ${record_id} ${where}${valid_to === null ? '' : `, until ${valid_to.slice(0, 19)} UTC`}`;
  });
  return `${kind} ${sha256 ?? store}: ${names.join('; ')}`;
}

function adviceFor({ faults }: FilesVerified): string[] {
  const { missing = 0, size = 0, content = 0 } = faults.by_kind;
  return missing + size + content === 0 ? [] : ['  → run content-sync files verify --repair to fetch them again'];
}

function repairedLines({ again, left }: NonNullable<FilesVerified['repaired']>): string[] {
  return [
    ...(again === 0 ? [] : [`  ${formatCount(again, 'file')} will be fetched again by the next run`]),
    ...(left === 0
      ? []
      : [`  ${formatNumber(left)} left: only earlier contents have them, or their store is not configured`]),
  ];
}

interface FieldStatus {
  resource: string;
  field: string;
  /** The store in the settings; null if the files are no longer fetched. */
  store: string | null;
  /** Current files by status. */
  files: Record<FileStatus, number>;
  /** Of all current files. */
  bytes: number;
}

type SourceFilesStatus = Awaited<ReturnType<typeof filesStatus>>;

const MAX_FAILURES = 20;

/** Reads the status of the files of these resources from the warehouse. */
async function filesStatus(
  own: Kysely<OwnTables>,
  { name: source, files: { kept } }: SourceSettings,
  resources: readonly string[],
) {
  const fields = new Map<string, FieldStatus>();
  const fieldOf = (resource: string, field: string): FieldStatus => {
    const key = JSON.stringify([resource, field]);
    const store = kept[resource]?.find((file) => file.field === field)?.store.name ?? null;
    const known = fields.get(key) ?? { resource, field, store, files: { ...NO_FILES }, bytes: 0 };
    fields.set(key, known);
    return known;
  };
  for (const resource of resources) for (const { field } of kept[resource] ?? []) fieldOf(resource, field);
  for (const { resource, field, status, files, bytes } of await countFiles(own)) {
    if (!resources.includes(resource)) continue;
    const counts = fieldOf(resource, field);
    counts.files[status] += files;
    counts.bytes += bytes;
  }
  // Oldest first.
  const trouble = await readFailedFiles(own, ['failed', 'refused'], MAX_FAILURES, resources);
  return { source, fields: [...fields.values()], next_due: await readNextDue(own, resources), trouble };
}

const NO_FILES: Readonly<Record<FileStatus, number>> = { waiting: 0, stored: 0, failed: 0, refused: 0, gone: 0 };

const HEAD = ['resource', 'field', ...FILE_STATUSES, 'size', 'store'] as const;

function formatStatus({ source, fields, next_due: due, trouble }: SourceFilesStatus): string {
  if (fields.length === 0) return `${source}: no files are stored`;
  const rows = fields.map(({ resource, field, files, bytes, store }) => [
    resource,
    field,
    ...FILE_STATUSES.map((status) => formatNumber(files[status])),
    formatBytes(bytes),
    visibleText(store ?? 'none: no longer fetched'),
  ]);
  const lines = alignedLines([[...HEAD], ...rows]);
  const next = due === null ? [] : [`next one due at ${due.slice(0, 19)} UTC`];
  return [source, ...[...lines, ...next, ...trouble.map(formatFailure)].map((line) => `  ${line}`)].join('\n');
}

function formatFailure(failure: FileFailure): string {
  const { resource, record_id, field, position, status, code, error, attempts, due_at } = failure;
  const which = position === 0 ? field : `${field} ${position}`;
  const again = due_at === null ? '' : `, again at ${due_at.slice(0, 19)} UTC`;
  const tried = status === 'failed' ? ` (${formatNumber(attempts)} attempts${again})` : '';
  return visibleText(`${status} ${resource} ${record_id} ${which}: ${error ?? ''} [${code ?? ''}]${tried}`);
}
