// `content-sync export dbt`: writes a dbt project (sources, staging models, tests) on the views of the warehouse.
import path from 'node:path';
import type { Command } from 'commander';
import { stringify } from 'yaml';
import type { SourceSettings } from '../config/settings.ts';
import { databaseAt, openWarehouseToRead } from '../database/databases.ts';
import type { WarehouseReader } from '../database/reading.ts';
import { readShapes, readViews } from '../database/state/catalog.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { textHash } from '../rows/records/record-key.ts';
import { resourceTimes } from '../server/schedule/due.ts';
import { scrubTexts } from '../server/status/snapshot.ts';
import { isNameOf } from '../views/plan-views.ts';
import { type CliContext, EXIT_CODES, printReport } from './command/context.ts';
import { type ChosenSource, forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';
import { writeOwnedFiles, writtenText } from './owned-files.ts';

/** A column of a view. Every text may have come from the service. */
interface DbtColumn {
  name: string;
  /** The type as the database names it. */
  declared: string;
  description: string | null;
  /** `content.id` if it holds the key of a record. */
  references: string | null;
  isKey: boolean;
}

interface DbtView {
  name: string;
  /** Null for a view of the whole source. */
  resource: string | null;
  /** The copied table that a live view shows; null for all other views. */
  table: string | null;
  description: string;
  columns: readonly DbtColumn[];
}

interface DbtSource {
  name: string;
  /** The views of resources that are copied. */
  views: readonly DbtView[];
  /** Live views of resources that are no longer copied. */
  leftOut: readonly string[];
  /** The schema that holds its tables. */
  schema: string;
  /** True for a SQLite file, which views of another file cannot read. */
  isFile: boolean;
  /** How old the copy of a resource may be, by its schedule. */
  maxAge: (resource: string) => object;
}

export function dbtCommand(context: CliContext): Command {
  return sourceCommand('dbt')
    .description('Write a dbt project on the live views: sources, staging models, tests, freshness')
    .argument('<dir>', 'Folder for the project; files that were changed by hand are not overwritten')
    .option('--force', 'Overwrite files that were changed by hand')
    .action(async (dir: string, options: SourceOptions & { force?: true }) => {
      const sources: DbtSource[] = [];
      const code = await forEachSource(context, options, [], async (chosen) => {
        sources.push(await describe(chosen, context));
      });
      if (sources.length === 0) return;
      const folder = path.resolve(context.cwd, dir);
      const choice = { force: options.force === true, isWhole: code === EXIT_CODES.ok };
      const done = await writeOwnedFiles(folder, projectFiles(sources), choice);
      const leftOut = sources.flatMap((source) => source.leftOut);
      const report = { ...done, ...(leftOut.length === 0 ? {} : { left_out: leftOut }) };
      printReport(context, { folder, ...report }, writtenText(folder, done, leftOut));
    });
}

async function describe({ source }: ChosenSource, { clock, secrets }: CliContext): Promise<DbtSource> {
  const database = databaseAt(source.warehouse);
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const { name, resources } = source;
    const views = scrubTexts(await readDbtViews(warehouse), (text) => scrubOwn(text, secrets));
    const isCopied = ({ resource }: DbtView): boolean => resource === null || resources.includes(resource);
    const left = views.filter((view) => view.table !== null && !isCopied(view));
    const from = clock.now();
    return {
      name,
      views: views.filter(isCopied),
      leftOut: left.map((view) => view.name),
      // A file has no schema: programs attach it under the name of the source.
      schema: database.shared?.namespace ?? plainName(name),
      isFile: database.shared === null,
      maxAge: (resource) => maxAge(source, resource, from),
    };
  });
}

/** Live views first, then the other views of resources, then those of the whole source. */
async function readDbtViews({ own, dialect: { types } }: WarehouseReader): Promise<DbtView[]> {
  const tables = (await readShapes(own)).flatMap((shape) => shape.tables);
  const stored = [...(await readViews(own)).values()];
  const views = stored.map(({ view, columns }): DbtView => {
    const { view_name: name, resource, description } = view;
    const table = resource === null ? undefined : tables.find((each) => isNameOf(name, `${each.name}_live`));
    return {
      name,
      resource,
      table: table?.name ?? null,
      description,
      columns: columns.map((column) => ({
        name: column.column_name,
        declared: types[column.type],
        description: column.description === '' ? null : column.description,
        references: column.refers_to,
        isKey: table?.key.includes(column.column_name) ?? false,
      })),
    };
  });
  const rank = ({ table, resource }: DbtView): number => (table !== null ? 0 : resource !== null ? 1 : 2);
  return views.toSorted((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

const HOUR_MS = 3_600_000;
/** Runs of the schedule in which the longest gap is searched. */
const MAX_RUNS = 1_000;
const MIN_GAP_MS = HOUR_MS / 2;
const UNSCHEDULED_MS = 12 * HOUR_MS;

/** A warning after two of the longest gaps between runs, so that one run may be missed, an error after six. */
function maxAge({ name, profile, schedule }: SourceSettings, resource: string, from: number): object {
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const { incremental, full } = resourceTimes({ source: name, resource, hasFilter }, schedule);
  let gap = 0;
  let at = from;
  for (let run = 0; run < MAX_RUNS; run += 1) {
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
function period(ms: number): { count: number; period: 'hour' | 'day' } {
  const hours = Math.ceil(ms / HOUR_MS);
  return hours < 24 ? { count: hours, period: 'hour' } : { count: Math.round(hours / 24), period: 'day' };
}

/** The oldest dbt that reads tests' arguments and the freshness of tables as they are written here. */
const DBT_VERSION = ['>=1.10.8', '<3.0.0'];

/** The texts of a project that shows these sources, by path within it. */
function projectFiles(sources: readonly DbtSource[]): Map<string, string> {
  const staged = sources.flatMap(({ name, views }) =>
    views.filter(({ table }) => table !== null).map((view) => ({ source: plainName(name), view })),
  );
  const isFile = sources.some((each) => each.isFile);
  const project = {
    name: 'content_sync',
    version: '1.0.0',
    'config-version': 2,
    profile: 'content_sync',
    'require-dbt-version': DBT_VERSION,
    'model-paths': ['models'],
    'test-paths': ['tests'],
    flags: { require_generic_test_arguments_property: true },
    models: { content_sync: { staging: { '+materialized': isFile ? 'table' : 'view' } } },
  };
  return new Map([
    ['dbt_project.yml', yamlOf(project)],
    ['README.md', README],
    ['models/sources.yml', yamlOf({ version: 2, sources: sources.map(toDbtSource) })],
    ...staged.map(stagingModel),
    ...staged.flatMap(keyTest),
  ]);
}

/** Long texts stay on one line, so that a change of a word is a change of a line. */
function yamlOf(value: object): string {
  return stringify(value, { lineWidth: 0 });
}

function toDbtSource({ name: source, views, schema, maxAge }: DbtSource): object {
  const name = plainName(source);
  const staged = views.filter(({ table }) => table !== null);
  const live = new Map(staged.map((view) => [view.table, `source('${name}', '${plainName(view.name)}')`]));
  const freshness = views.find((view) => view.resource === null && isNameOf(view.name, 'sync_freshness'));
  return {
    name,
    description: withoutJinja(`The copy of ${source} that content-sync keeps: ${views.length} views.`),
    schema,
    quoting: { schema: true, identifier: true },
    tables: views.map((view) => {
      const isAged = view.table !== null && freshness !== undefined;
      const loaded_at_field = isAged ? loadedAt(view, schema, freshness) : null;
      return toDbtTable(view, live, isAged ? { loaded_at_field, freshness: maxAge(view.resource ?? '') } : null);
    }),
  };
}

/** A view as a table of a source; `live` names the live view of a table as dbt does. */
function toDbtTable(
  { name, table, description, columns }: DbtView,
  live: ReadonlyMap<string | null, string>,
  config: object | null,
): object {
  const plain = plainName(name);
  const keys = columns.filter(({ isKey }) => isKey);
  return {
    name: plain,
    ...(plain === name ? {} : { identifier: name }),
    description: withoutJinja(description),
    ...(config === null ? {} : { config }),
    columns: columns.map((column) => {
      const tests = table !== null ? toDbtTests(column, keys, live) : [];
      return {
        name: column.name,
        ...(column.description === null ? {} : { description: withoutJinja(column.description) }),
        data_type: column.declared,
        ...(/^[a-z_][a-z0-9_]*$/.test(column.name) ? {} : { quote: true }),
        ...(tests.length === 0 ? {} : { data_tests: tests }),
      };
    }),
  };
}

/** How old the copy is: when the resource was last brought up to date, whether or not anything had changed. */
function loadedAt({ resource }: DbtView, schema: string, { name }: DbtView): string {
  const view = `"${schema.replaceAll('"', '""')}".${quoted(name)}`;
  const of = `'${(resource ?? '').replaceAll("'", "''")}'`;
  return `(select max(last_success_at) from ${view} where resource = ${of})`;
}

/** Tests that keys are unique and references exist. */
function toDbtTests(
  column: DbtColumn,
  keys: readonly DbtColumn[],
  live: ReadonlyMap<string | null, string>,
): (object | string)[] {
  // `keyTest` checks that keys of several columns are unique together.
  const own = !column.isKey ? [] : keys.length === 1 ? ['unique', 'not_null'] : ['not_null'];
  const [table = '', field = ''] = column.references?.split('.') ?? [];
  const to = live.get(table);
  if (to === undefined) return own;
  // The service sets references: a dangling one is no error of the copy.
  const severity = column.isKey && keys.length > 1 ? {} : { config: { severity: 'warn' } };
  return [...own, { relationships: { arguments: { to, field }, ...severity } }];
}

/** A live view, and the source that it belongs to. */
interface Staged {
  view: DbtView;
  source: string;
}

/** `stg_blog__content_tags`. */
function modelName({ view, source }: Staged): string {
  return `stg_${source}__${plainName(view.table ?? view.name)}`;
}

function stagingModel(staged: Staged): [string, string] {
  const { view, source } = staged;
  const model = modelName(staged);
  const columns = view.columns.map(({ name }) => `    ${quoted(name)}`).join(',\n');
  const sql = `with ${model}_source as (
    select * from {{ source('${source}', '${plainName(view.name)}') }}
)

select
${columns}
from ${model}_source
`;
  return [`models/staging/${model}.sql`, sql];
}

/** For a key of several columns, a test that finds duplicate rows. */
function keyTest(staged: Staged): [string, string][] {
  const model = modelName(staged);
  const keys = staged.view.columns.filter(({ isKey }) => isKey).map(({ name }) => quoted(name));
  if (keys.length < 2) return [];
  const list = keys.join(', ');
  const sql = `select ${list}, count(*) as records
from {{ ref('${model}') }}
group by ${list}
having count(*) > 1
`;
  return [[`tests/unique_key_of_${model}.sql`, sql]];
}

const HASH_LENGTH = 8;

/** A name that is valid for dbt, file systems and databases: `a-z`, `0-9` and `_`, not beginning with a digit. */
function plainName(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '_');
  // If more than accents was removed, a hash of the name keeps it unique.
  const name = /^[a-z0-9_]+$/.test(text)
    ? plain
    : `${plain.replace(/^_+$/, '')}_${textHash(text).slice(0, HASH_LENGTH)}`;
  return /^[a-z]/.test(name) ? name : `t_${name}`;
}

/** Breaks up Jinja expressions in a text of the service, which dbt would run. */
function withoutJinja(text: string): string {
  return text.replace(/\{(?=[{%#])/g, '{ ').replace(/([}%#])(?=\})/g, '$1 ');
}

/** A column as SQL names it, on every database. */
function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

const README = `# The copy of content-sync, for dbt

\`content-sync export dbt\` wrote this project and may be run again: it leaves alone whatever was changed by hand. Write
models of your own beside those in \`models/staging\`. It needs dbt 1.10.8 or later and a profile \`content_sync\` in your
\`profiles.yml\`: for Postgres the database of the copy; for SQLite a file of dbt's own, with each copy attached in
\`schemas_and_paths\` under the name of its source.
`;
