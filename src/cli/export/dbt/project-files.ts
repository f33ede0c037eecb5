import { stringify } from 'yaml';
import type { DictionaryTable } from '../../../serve/dictionary/read-dictionary.ts';
import { isNameOf } from '../../../views/plan-views.ts';
import { dbtColumns, type DbtSource, type Staged, stagedViews } from './described-source.ts';
import { plainName, quoted, withoutJinja } from './names.ts';
import { profilesOf, README } from './project-texts.ts';

/** The oldest dbt that reads tests' arguments and the freshness of tables as they are written here. */
const DBT_VERSION = ['>=1.10.8', '<3.0.0'];

/** The texts of a project that shows these sources, by path within it. */
export function projectFiles(sources: readonly DbtSource[]): Map<string, string> {
  const staged = sources.flatMap(stagedViews);
  return new Map([
    ['dbt_project.yml', yamlOf(project(sources))],
    [
      'profiles.example.yml',
      profilesOf(sources.map(({ dictionary, schema }) => ({ name: dictionary.source, schema }))),
    ],
    ['README.md', README],
    ['models/sources.yml', yamlOf({ version: 2, sources: sources.map(sourceOf) })],
    ['models/staging/schema.yml', yamlOf({ version: 2, models: sources.flatMap(modelsOf) })],
    ...staged.map((view) => [`models/staging/${view.model}.sql`, modelSql(view)] as const),
    ...staged.flatMap(keyTest),
  ]);
}

/** Long texts stay on one line, so that a change of a word is a change of a line. */
function yamlOf(value: object): string {
  return stringify(value, { lineWidth: 0 });
}

function project(sources: readonly DbtSource[]): object {
  return {
    name: 'content_sync',
    version: '1.0.0',
    'config-version': 2,
    profile: 'content_sync',
    'require-dbt-version': DBT_VERSION,
    'model-paths': ['models'],
    'test-paths': ['tests'],
    flags: { require_generic_test_arguments_property: true },
    models: {
      content_sync: {
        staging: { '+materialized': sources.some(({ isFile }) => isFile) ? 'table' : 'view' },
      },
    },
  };
}

function sourceOf(described: DbtSource): object {
  const { dictionary, schema, maxAge } = described;
  const { source, tables, relations } = dictionary;
  const name = plainName(source);
  const shown = tables.filter(({ kind }) => kind !== 'table');
  const live = new Map(shown.flatMap((view) => (view.table === null ? [] : [[view.table, view.name] as const])));
  const target = (table: string): string | null => {
    const view = live.get(table);
    return view === undefined ? null : `source('${name}', '${plainName(view)}')`;
  };
  const freshness = tables.find((table) => table.kind === 'global' && isNameOf(table.name, 'sync_freshness'));
  const of = (table: DictionaryTable): object | null =>
    freshness === undefined
      ? null
      : { loaded_at_field: loadedAt(table, schema, freshness), freshness: maxAge(table.resource ?? '') };
  return {
    name,
    description: withoutJinja(
      `The copy of ${source} that content-sync keeps: ${shown.length} views, ${relations.length} relations between them.`,
    ),
    schema,
    quoting: { schema: true, identifier: true },
    tables: shown.map((table) =>
      tableOf(table, table.kind === 'live' ? of(table) : null, dbtColumns(table, described, target)),
    ),
  };
}

function tableOf({ name, description }: DictionaryTable, config: object | null, columns: object): object {
  const plain = plainName(name);
  return {
    name: plain,
    ...(plain === name ? {} : { identifier: name }),
    description: withoutJinja(description),
    ...(config === null ? {} : { config }),
    columns,
  };
}

/** How old the copy is: when the resource was last brought up to date, whether or not anything had changed. */
function loadedAt({ resource }: DictionaryTable, schema: string, { name }: DictionaryTable): string {
  const view = `"${schema.replaceAll('"', '""')}".${quoted(name)}`;
  const of = `'${(resource ?? '').replaceAll("'", "''")}'`;
  return `(select max(last_success_at) from ${view} where resource = ${of})`;
}

function modelsOf(source: DbtSource): object[] {
  const staged = stagedViews(source);
  const models = new Map(staged.map(({ view, model }) => [view.table, model]));
  const target = (table: string): string | null => {
    const model = models.get(table);
    return model === undefined ? null : `ref('${model}')`;
  };
  return staged.map(({ view, model }) => ({
    name: model,
    description: withoutJinja(view.description),
    columns: dbtColumns(view, source, target),
  }));
}

function modelSql({ view, source, model }: Staged): string {
  const columns = view.columns.map(({ name }) => `    ${quoted(name)}`).join(',\n');
  return `with ${model}_source as (
    select * from {{ source('${source}', '${plainName(view.name)}') }}
)

select
${columns}
from ${model}_source
`;
}

/** A key of several columns: rows that are there twice. */
function keyTest({ view, model }: Staged): [string, string][] {
  const keys = view.columns.filter(({ isKey }) => isKey).map(({ name }) => quoted(name));
  if (keys.length < 2) return [];
  const list = keys.join(', ');
  const sql = `select ${list}, count(*) as records
from {{ ref('${model}') }}
group by ${list}
having count(*) > 1
`;
  return [[`tests/unique_key_of_${model}.sql`, sql]];
}
