import path from 'node:path';
import { Command } from 'commander';
import { sql } from 'kysely';
import { ConfigError, messageOf } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf } from '../observe/figures.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { type Dictionary, readDictionary } from '../serve/dictionary/read-dictionary.ts';
import { scrubTexts } from '../serve/status/snapshot.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { Profile } from '../source/profile.ts';
import { timesOf } from '../trigger/schedule/due.ts';
import { databaseAt, openWarehouseToRead } from '../warehouse/databases.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { print } from './command/output.ts';
import { type ChosenSource, forEachSource, type SourceOptions, withSourceOptions } from './command/sources.ts';
import { whileOpen } from './command/with-app.ts';
import { type DbtSource, type MaxAge, plainName, projectFiles, withoutJinja } from './dbt-project.ts';
import { writeOwnedFiles, type WrittenFiles } from './owned-files.ts';

type Options = SourceOptions & { force?: true; json?: true };

/** `content-sync export dbt`: a dbt project on the views of the copy; asks only the warehouse. */
export function dbtCommand(context: CliContext): Command {
  return withSourceOptions(new Command('dbt'))
    .description('a dbt project on the live views: sources, staging models, tests, freshness')
    .argument('<dir>', 'its folder; files in it that were changed by hand are left alone')
    .option('--force', 'write the files of the project whatever stands in their places')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: Options) => {
      const sources: DbtSource[] = [];
      const code = await forEachSource(context, options, [], async (chosen) => {
        sources.push(await describe(chosen, context));
      });
      if (sources.length === 0) return;
      const folder = path.resolve(context.cwd, dir);
      const choice = { force: options.force === true, isWhole: code === EXIT_CODES.ok };
      const done = await writeOwnedFiles(folder, projectFiles(sources), choice).catch((error: unknown) => {
        throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, {
          hint: 'name a folder that this user may write to',
          cause: error,
        });
      });
      const leftOut = sources.flatMap((source) => source.leftOut);
      const report = { ...done, ...(leftOut.length === 0 ? {} : { left_out: leftOut }) };
      print(context, options.json === true ? { folder, ...report } : summary(folder, done, leftOut));
    });
}

async function describe({ source }: ChosenSource, { clock, secrets }: CliContext): Promise<DbtSource> {
  const database = databaseAt(source.warehouse);
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const { name, resources, profile } = source;
    const about = { source: name, warehouse: database.shown, resources, profile, at: clock.now() };
    const read = await readDictionary(about, warehouse);
    const states = await readStates(read, profile, warehouse);
    const { dictionary, ...scrubbed } = scrubTexts({ dictionary: read, states }, (text) => scrubOwn(text, secrets));
    // A file has no schema: programs attach it under a name, which is the source's.
    const schema = database.shared?.namespace ?? plainName(source.name);
    const tables = dictionary.tables.filter((table) => table.is_copied !== false);
    const leftOut = dictionary.tables.filter(({ kind, is_copied }) => kind === 'live' && is_copied === false);
    return {
      ...scrubbed,
      dictionary: { ...dictionary, tables },
      leftOut: leftOut.map((view) => view.name),
      schema,
      isFile: database.shared === null,
      maxAge: (resource) => maxAge(source, resource, about.at),
    };
  });
}

function summary(
  folder: string,
  { written, unchanged, kept, removed }: WrittenFiles,
  leftOut: readonly string[],
): string {
  const lines = [
    `${folder}: ${countOf(written.length, 'file')} written, ${unchanged.length} as they were`,
    ...removed.map((name) => `removed, because its table is gone: ${name}`),
    ...leftOut.map((name) => `left out, because it is no longer copied: ${name}`),
    ...kept.map((name) => `left alone, because it was changed by hand: ${name}`),
    ...(kept.length === 0 ? [] : ['  → move your changes to a file of your own, or write them over with --force']),
  ];
  return lines.map(visibleText).join('\n');
}

const HOUR_MS = 3_600_000;
/** The longest gap of a schedule is found in so many runs, or so many days. */
const MAX_RUNS = 1_000;
const MAX_DAYS_MS = 400 * 24 * HOUR_MS;
const MIN_GAP_MS = HOUR_MS / 2;
const UNSCHEDULED_MS = 12 * HOUR_MS;

/** A warning after two of the longest gaps between runs, so that one run may be missed, an error after six. */
function maxAge({ name, profile, schedule }: SourceSettings, resource: string, from: number): MaxAge {
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const { incremental, full } = timesOf({ source: name, resource, hasFilter }, schedule);
  let gap = 0;
  let at = from;
  for (let run = 0; run < MAX_RUNS && at < from + MAX_DAYS_MS; run += 1) {
    const next = Math.min(incremental?.(at) ?? Infinity, full?.(at) ?? Infinity);
    if (next === Infinity) break;
    // The first gap is cut off at its beginning.
    if (run > 0) gap = Math.max(gap, next - at);
    at = next;
  }
  const longest = gap === 0 ? UNSCHEDULED_MS : Math.max(MIN_GAP_MS, gap);
  return { warn_after: period(2 * longest), error_after: period(6 * longest) };
}

/** In whole days if it is more than one: a clock change makes no difference. */
function period(ms: number): MaxAge['warn_after'] {
  const hours = Math.ceil(ms / HOUR_MS);
  return hours < 24 ? { count: hours, period: 'hour' } : { count: Math.round(hours / 24), period: 'day' };
}

/** A field with more values is no state. */
const MAX_STATES = 20;

/** The states of publishing that the profile names or that records have, by `view.column`. */
async function readStates(
  { tables }: Dictionary,
  { resources }: Profile,
  { own, named }: Pick<WarehouseReader, 'own' | 'named'>,
): Promise<DbtSource['states']> {
  const found: [string, string[]][] = [];
  for (const { name, kind, resource, table, columns } of tables) {
    const state = resources[resource ?? '']?.state;
    if (kind !== 'live' || table !== resource || state == null) continue;
    const column = columns.find(({ source, type }) => source === state.field && type === 'text');
    if (column === undefined) continue;
    const value = sql.id(column.name);
    const { rows } = await sql<{ value: string }>`
      SELECT DISTINCT ${value} AS "value" FROM ${named(name)} WHERE ${value} IS NOT NULL LIMIT ${MAX_STATES + 1}
    `.execute(own);
    const values = [...new Set([...state.published.map(String), ...rows.map((row) => row.value)])].toSorted();
    const isState = rows.length <= MAX_STATES && values.every((each) => withoutJinja(each) === each);
    if (isState) found.push([`${name}.${column.name}`, values]);
  }
  return Object.fromEntries(found);
}
