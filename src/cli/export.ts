// `content-sync export`: writes views as Parquet, CSV or NDJSON files, and files for other tools.
import path from 'node:path';
import { Command, Option } from 'commander';
import { type ExportedTable, type ExportReport, exportTables, FORMATS } from '../export/export-tables.ts';
import { FORMAT_NAMES, type FormatName, type FormatOption } from '../export/formats/format.ts';
import { openFolder } from '../export/places/local-folder.ts';
import type { ExportPlace } from '../export/places/place.ts';
import { isBucket, openBucket, s3Access } from '../export/places/s3-bucket.ts';
import { visibleText } from '../model/visible-text.ts';
import { countText, formatBytes } from '../observe/figures.ts';
import { alignedLines, type CliContext, printReport } from './command/context.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  sourceCommand,
  type SourceOptions,
} from './command/sources.ts';
import { dbtCommand } from './dbt.ts';

export function exportCommand(context: CliContext): Command {
  const group = new Command('export').helpCommand(false);
  for (const format of FORMAT_NAMES) group.addCommand(exportTablesCommand(context, format));
  return group.addCommand(dbtCommand(context));
}

interface ExportOptions extends SourceOptions {
  tables?: string[];
  full?: true;
  partitions: boolean;
  compression?: string;
  bom?: true;
  escapeFormulas?: true;
}

const ABOUT: Readonly<Record<FormatName, string>> = {
  parquet: 'typed, for DuckDB, Spark, BigQuery and others',
  csv: 'RFC 4180, with a header',
  ndjson: 'one JSON object per line',
};

const OPTIONS: Readonly<Record<FormatOption, string>> = {
  bom: 'Begin each file with a byte order mark, so that Excel detects UTF-8',
  'escape-formulas': "Put ' before texts that begin with = + - @ or a control character, which spreadsheets may run",
};

/** `content-sync export parquet`, and similar: writes one snapshot of the views as files. */
function exportTablesCommand(context: CliContext, format: FormatName): Command {
  const { compressions, options: choices } = FORMATS[format];
  const command = sourceCommand(format)
    .description(`Write the views that BI reads as ${format} files (${ABOUT[format]}); later only what changed`)
    .argument('<place>', 'Folder, or s3://bucket/prefix; each of several sources gets its own folder')
    .option(
      '--tables <names>',
      'Only these views, separated by commas (default: all <table>_live, sync_deletes and sync_dictionary)',
      (names: string) => names.split(',').map((name) => name.trim()),
    )
    .option('--full', 'Write everything again')
    .option('--no-partitions', 'Write no folders by month for fact tables');
  if (compressions.length > 1) {
    command.addOption(
      new Option('--compression <kind>', 'Compression of the files').choices(compressions).default(compressions[0]),
    );
  }
  for (const choice of choices) command.option(`--${choice}`, OPTIONS[choice]);
  return command.action(async (place: string, options: ExportOptions) => {
    const isOne = Object.keys(readSettings(context, options).sources).length === 1;
    await forEachSource(context, options, [], async (chosen) => {
      const report = await exportSource(
        context,
        chosen,
        isOne ? place : `${place}/${chosen.source.name}`,
        format,
        options,
      );
      const source = chosen.source.name;
      printReport(context, { source, ...report }, formatExport(source, report));
    });
  });
}

async function exportSource(
  context: CliContext,
  { source, log }: ChosenSource,
  place: string,
  format: FormatName,
  { tables = [], full, partitions, compression = 'none', bom, escapeFormulas }: ExportOptions,
): Promise<ExportReport> {
  const { clock, signal, version } = context;
  return exportTables({
    warehouse: source.warehouse,
    source: source.name,
    resources: source.resources,
    format,
    form: {
      compression,
      options: [...(bom ? (['bom'] as const) : []), ...(escapeFormulas ? (['escape-formulas'] as const) : [])],
    },
    tables,
    clock,
    signal,
    version,
    isByMonth: partitions,
    isFull: full === true,
    place: await openPlace(context, place),
    exported: (table) => log.info({ ...table }, 'exported'),
  });
}

function openPlace(context: CliContext, place: string): ExportPlace | Promise<ExportPlace> {
  if (!isBucket(place)) return openFolder(path.resolve(context.cwd, place));
  const { AWS_SECRET_ACCESS_KEY = '', AWS_SESSION_TOKEN = '', AWS_ACCESS_KEY_ID = '' } = context.env;
  context.secrets.push(...[AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_ACCESS_KEY_ID].filter((each) => each !== ''));
  return openBucket(s3Access(place, context.env), context);
}

function formatExport(source: string, { place, snapshot_at: at, tables, not_copied, left_out }: ExportReport): string {
  const lines = [
    ...alignedLines(tables.map(toCells)),
    ...formerLines(not_copied, 'no longer copied, exported with the rows of the last run'),
    ...formerLines(left_out, 'left out, no longer copied; name them in --tables to export them'),
  ];
  return [`${source}: as of ${at} in ${visibleText(place)}`, ...lines.map((line) => `  ${line}`)].join('\n');
}

function formerLines(tables: readonly string[] | undefined, what: string): string[] {
  return tables === undefined ? [] : [`${tables.map(visibleText).join(', ')}: ${what}`];
}

function toCells({ table, rows, files, bytes, written_files: written, written_bytes: size }: ExportedTable): string[] {
  const isWritten = written === 0 ? 'unchanged' : `${countText(written)} written, ${formatBytes(size)}`;
  return [visibleText(table), `${countText(rows)} rows`, `${countText(files)} files, ${formatBytes(bytes)}`, isWritten];
}
