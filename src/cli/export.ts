// `content-sync export`: writes views as files, such as Parquet or CSV, or describes them for dbt.
import path from 'node:path';
import { Command, Option } from 'commander';
import { type ExportedTable, type ExportReport, exportViews } from '../export/export-views.ts';
import { EXPORT_FORMATS } from '../export/formats/all-formats.ts';
import type { ExportFormat } from '../export/formats/export-format.ts';
import type { ExportTarget } from '../export/targets/export-target.ts';
import { openFolder } from '../export/targets/local-folder.ts';
import { isBucket, openBucket, s3Access } from '../export/targets/s3-bucket.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatBytes, formatNumber } from '../observe/format-values.ts';
import { alignedLines, type CliContext, printReport } from './command/context.ts';
import { forEachSource, readSettings, sourceCommand, type SourceOptions } from './command/sources.ts';
import { dbtCommand } from './dbt.ts';

export function exportCommand(context: CliContext): Command {
  const group = new Command('export').helpCommand(false);
  for (const format of EXPORT_FORMATS) group.addCommand(exportFormatCommand(context, format));
  return group.addCommand(dbtCommand(context));
}

interface ExportOptions extends SourceOptions {
  tables?: string[];
  full?: true;
  partitions: boolean;
  compression?: string;
}

/** `content-sync export parquet`, and similar: writes one snapshot of the views as files. */
function exportFormatCommand(context: CliContext, format: ExportFormat): Command {
  const { name, about, compressions } = format;
  const command = sourceCommand(name)
    .description(`Write the views that BI reads as ${name} files (${about}); later only what changed`)
    .argument('<target>', 'Folder, or s3://bucket/prefix; each of several sources gets its own folder')
    .option(
      '--tables <names>',
      'Only these views, separated by commas (default: all <table>_live, sync_deletes and sync_dictionary)',
      (names: string) => names.split(',').map((each) => each.trim()),
    )
    .option('--full', 'Write everything again')
    .option('--no-partitions', 'Write no folders by month for fact tables');
  if (compressions.length > 1) {
    command.addOption(
      new Option('--compression <kind>', 'Compression of the files').choices(compressions).default(compressions[0]),
    );
  }
  const flags = Object.entries(format.options).map(([flag, help]) => ({ flag, option: new Option(`--${flag}`, help) }));
  for (const { option } of flags) command.addOption(option);
  return command.action(async (target: string, options: ExportOptions) => {
    const { compression = 'none' } = options;
    const chosenFlags = flags.filter(({ option }) => command.getOptionValue(option.attributeName()) === true);
    const fileOptions = { compression, options: chosenFlags.map(({ flag }) => flag) };
    const hasOneSource = Object.keys(readSettings(context, options).sources).length === 1;
    await forEachSource(context, options, [], async ({ source, log }) => {
      const { clock, signal, version } = context;
      const report = await exportViews({
        warehouse: source.warehouse,
        source: source.name,
        resources: source.resources,
        target: await openTarget(context, hasOneSource ? target : `${target}/${source.name}`),
        format,
        fileOptions,
        tables: options.tables ?? [],
        isByMonth: options.partitions,
        isFull: options.full === true,
        version,
        clock,
        signal,
        onTable: (table) => log.info({ ...table }, 'exported'),
      });
      printReport(context, { source: source.name, ...report }, formatExport(source.name, report));
    });
  });
}

function openTarget(context: CliContext, target: string): ExportTarget | Promise<ExportTarget> {
  if (!isBucket(target)) return openFolder(path.resolve(context.cwd, target));
  const { AWS_SECRET_ACCESS_KEY = '', AWS_SESSION_TOKEN = '', AWS_ACCESS_KEY_ID = '' } = context.env;
  context.secrets.push(...[AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ACCESS_KEY_ID].filter((each) => each !== ''));
  return openBucket(s3Access(target, context.env), context);
}

function formatExport(source: string, { place, snapshot_at: at, tables, not_copied, left_out }: ExportReport): string {
  const lines = [
    ...alignedLines(tables.map(toCells)),
    ...tableNote(not_copied, 'no longer copied, exported with the rows of the last run'),
    ...tableNote(left_out, 'left out, no longer copied; name them in --tables to export them'),
  ];
  return [`${source}: as of ${at} in ${visibleText(place)}`, ...lines.map((line) => `  ${line}`)].join('\n');
}

function tableNote(tables: readonly string[] | undefined, note: string): string[] {
  return tables === undefined ? [] : [`${tables.map(visibleText).join(', ')}: ${note}`];
}

function toCells({ table, rows, files, bytes, written_files: written, written_bytes: size }: ExportedTable): string[] {
  const change = written === 0 ? 'unchanged' : `${formatNumber(written)} written, ${formatBytes(size)}`;
  const stored = `${formatNumber(files)} files, ${formatBytes(bytes)}`;
  return [visibleText(table), `${formatNumber(rows)} rows`, stored, change];
}
