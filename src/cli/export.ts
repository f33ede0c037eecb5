import { Command, Option } from 'commander';
import type { CliContext } from './command/context.ts';
import { dbtCommand } from './dbt.ts';
import { deploymentCommand, monitoringCommand } from './deployment.ts';
import path from 'node:path';
import { visibleText } from '../model/visible-text.ts';
import { bytesText, countText } from '../observe/figures.ts';
import { exportTables, FORMATS, type ExportedTable, type ExportReport } from '../export/export-tables.ts';
import type { FormatName, FormatOption } from '../export/formats/format.ts';
import { openFolder } from '../export/places/local-folder.ts';
import type { ExportPlace } from '../export/places/place.ts';
import { isBucket, openBucket, s3Access } from '../export/places/s3-bucket.ts';
import {
  readSettings,
  forEachSource,
  withSourceOptions,
  type ChosenSource,
  type SourceOptions,
} from './command/sources.ts';
import { alignedLines, print } from './command/output.ts';

/** What can be exported, in the order of the help. A new kind is a command in a file of its own and a line here. */
const EXPORTS: readonly ((context: CliContext) => Command)[] = [
  (context) => exportTablesCommand(context, 'parquet'),
  (context) => exportTablesCommand(context, 'csv'),
  (context) => exportTablesCommand(context, 'ndjson'),
  dbtCommand,
  deploymentCommand,
  monitoringCommand,
];

/** `content-sync export`: the warehouse for other tools, as files; the warehouse itself is only read. */
export function exportCommand(context: CliContext): Command {
  const command = new Command('export').helpCommand(false);
  for (const make of EXPORTS) command.addCommand(make(context));
  return command;
}

interface ExportOptions extends SourceOptions {
  tables?: string[];
  full?: true;
  partitions: boolean;
  compression?: string;
  bom?: true;
  escapeFormulas?: true;
  json?: true;
}

const ABOUT: Readonly<Record<FormatName, string>> = {
  parquet: 'with their types, for DuckDB, Spark, BigQuery and the like',
  csv: 'RFC 4180, with a header',
  ndjson: 'one JSON object a line',
};

const OPTIONS: Readonly<Record<FormatOption, string>> = {
  bom: 'begin each file with a byte order mark, by which Excel knows UTF-8',
  'escape-formulas': "put ' before texts that begin with = + - @ or a control character, which spreadsheets may run",
};

/** `content-sync export parquet`, and its like: the views as they stand at one moment, as files in a place. */
function exportTablesCommand(context: CliContext, format: FormatName): Command {
  const { compressions, options: choices } = FORMATS[format];
  const command = withSourceOptions(new Command(format))
    .description(`the views that BI reads as ${format} files: ${ABOUT[format]}; a second time only what changed`)
    .argument('<place>', 'a folder, or s3://bucket/prefix; of several sources each has a folder of its own in it')
    .option(
      '--tables <names>',
      'only these views, with commas; else all <table>_live, sync_deletes and sync_dictionary',
      (names: string) => names.split(',').map((name) => name.trim()),
    )
    .option('--full', 'write everything anew')
    .option('--no-partitions', 'no folders by month for tables of facts')
    .option('--json', 'print one JSON object per source on stdout');
  if (compressions.length > 1) {
    command.addOption(
      new Option('--compression <kind>', 'how files are compressed').choices(compressions).default(compressions[0]),
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
      if (options.json === true) print(context, { source: chosen.source.name, ...report });
      else print(context, textOf(chosen.source.name, report));
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

function textOf(source: string, { place, snapshot_at: at, tables, not_copied, left_out }: ExportReport): string {
  const lines = [
    ...alignedLines(tables.map(cellsOf)),
    ...formerLines(not_copied, 'no longer copied, exported with the rows of the last run'),
    ...formerLines(left_out, 'left out, no longer copied; name them in --tables to export them'),
  ];
  return [`${source}: as of ${at} in ${visibleText(place)}`, ...lines.map((line) => `  ${line}`)].join('\n');
}

function formerLines(tables: readonly string[] | undefined, what: string): string[] {
  return tables === undefined ? [] : [`${tables.map(visibleText).join(', ')}: ${what}`];
}

function cellsOf({ table, rows, files, bytes, written_files: written, written_bytes: size }: ExportedTable): string[] {
  const isWritten = written === 0 ? 'unchanged' : `${countText(written)} written, ${bytesText(size)}`;
  return [visibleText(table), `${countText(rows)} rows`, `${countText(files)} files, ${bytesText(bytes)}`, isWritten];
}
