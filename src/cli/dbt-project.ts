import { stringify } from 'yaml';
import type { Dictionary, DictionaryColumn, DictionaryTable } from '../serve/dictionary/read-dictionary.ts';
import { textHash } from '../shape/records/fingerprint.ts';
import { isNameOf } from '../views/plan-views.ts';

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

/** A source as a project is made of it. */
export interface DbtSource {
  dictionary: Dictionary;
  /** Live views of resources that are no longer copied. */
  leftOut: readonly string[];
  /** The schema that holds its tables. */
  schema: string;
  /** True if it is a file of its own, which views of another file cannot look into. */
  isFile: boolean;
  /** Values of columns with the state of publishing, by `view.column`. */
  states: Readonly<Record<string, readonly string[]>>;
  /** How old the copy of a resource may be, by its schedule. */
  maxAge: (resource: string) => MaxAge;
}

interface Period {
  count: number;
  period: 'hour' | 'day';
}

/** As dbt has it in `freshness`. */
export interface MaxAge {
  warn_after: Period;
  error_after: Period;
}

/** A live view, and the model that stands on it. */
export interface Staged {
  view: DictionaryTable;
  source: string;
  model: string;
}

/** What dbt reads as a list of tests: a name, or one test with what it takes. */
type DbtTest = string | Record<string, object>;

interface DbtColumn {
  name: string;
  description?: string;
  data_type: string;
  quote?: true;
  data_tests?: DbtTest[];
}

/** The live views of a source, each with the model that shows it. */
function stagedViews({ dictionary: { source, tables } }: DbtSource): Staged[] {
  return tables
    .filter(({ kind }) => kind === 'live')
    .map((view) => ({ view, source: plainName(source), model: stagingName(source, view.table ?? view.name) }));
}

/** Columns with their tests; `target` says how a test names the table that another one's key is looked up in. */
function dbtColumns(
  table: DictionaryTable,
  { states }: DbtSource,
  target: (table: string) => string | null,
): DbtColumn[] {
  const keys = table.kind === 'live' ? table.columns.filter(({ isKey }) => isKey) : [];
  return table.columns.map((column) => {
    const values = states[`${table.name}.${column.name}`];
    const state = values === undefined ? [] : [{ accepted_values: { arguments: { values }, ...WARN } }];
    const tests = table.kind === 'live' ? [...testsOf(column, keys, target), ...state] : [];
    return {
      name: column.name,
      ...(column.description === null ? {} : { description: withoutJinja(column.description) }),
      data_type: column.declared,
      ...(/^[a-z_][a-z0-9_]*$/.test(column.name) ? {} : { quote: true }),
      ...(tests.length === 0 ? {} : { data_tests: tests }),
    };
  });
}

/** It is the service that decides: a new value is news, and no fault of the copy. */
const WARN = { config: { severity: 'warn' } };

function testsOf(
  column: DictionaryColumn,
  keys: readonly DictionaryColumn[],
  target: (table: string) => string | null,
): DbtTest[] {
  // Keys of several columns are unique together: a test of their own says so.
  const own = !column.isKey ? [] : keys.length === 1 ? ['unique', 'not_null'] : ['not_null'];
  const [table = '', field = ''] = column.references?.split('.') ?? [];
  const to = column.references === null ? null : target(table);
  if (to === null) return own;
  const severity = column.isKey && keys.length > 1 ? {} : WARN;
  return [...own, { relationships: { arguments: { to, field }, ...severity } }];
}

const HASH_LENGTH = 8;

/** A name that is one for dbt, for file systems and for databases: `a-z`, `0-9` and `_`, not beginning with a digit. */
export function plainName(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '_');
  // What was more than its accents gets a hash of the whole: two names never become one.
  const told = /^[a-z0-9_]+$/.test(text)
    ? plain
    : `${plain.replace(/^_+$/, '')}_${textHash(text).slice(0, HASH_LENGTH)}`;
  return /^[a-z]/.test(told) ? told : `t_${told}`;
}

/** `stg_blog__content_tags`. */
function stagingName(source: string, table: string): string {
  return `stg_${plainName(source)}__${plainName(table)}`;
}

/** A text of the service where dbt would look for expressions in it, and run them. */
export function withoutJinja(text: string): string {
  return text.replace(/\{(?=[{%#])/g, '{ ').replace(/([}%#])(?=\})/g, '$1 ');
}

/** A column as SQL names it, on every database. */
function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** What stands beside the project for those who open it. */
const README = `# The copy of content-sync, for dbt

\`content-sync export dbt\` wrote this project: sources (\`models/sources.yml\`), a model on each live view
(\`models/staging\`), their tests, and how fresh the copy is. Write models of your own beside them, and exposures.

- Needs dbt 1.10.8 or later, with the adapter for Postgres, or the community's for SQLite. Copy \`profiles.example.yml\`
  to \`profiles.yml\` and fill it in; then \`dbt build\` and \`dbt source freshness\`.
- \`content-sync export dbt\` may be run again whenever columns or tables came: it writes its own files anew, and leaves
  alone whatever was changed by hand (\`--force\` writes it over). Each file of its own says so in its first line.
- Keys are tested for being unique and there, references for leading somewhere: one that leads nowhere is a warning,
  because it is the service that keeps them.
- On SQLite the copy is attached to a database file of dbt's own, under the name of the source, so that dbt never writes
  to it. A view there sees no other file, so staging models are tables; and types are what the columns hold.
`;

/** Profiles for both databases; nothing in it is secret. */
function profilesOf(sources: readonly { name: string; schema: string }[]): string {
  const paths = Object.fromEntries(sources.map(({ name, schema }) => [schema, `path/to/${plainName(name)}.db`]));
  return stringify({
    content_sync: {
      target: 'postgres',
      outputs: {
        postgres: {
          type: 'postgres',
          host: "{{ env_var('PGHOST') }}",
          port: 5432,
          user: "{{ env_var('PGUSER') }}",
          password: "{{ env_var('PGPASSWORD') }}",
          dbname: "{{ env_var('PGDATABASE') }}",
          schema: 'analytics',
          threads: 4,
        },
        sqlite: {
          type: 'sqlite',
          threads: 1,
          database: 'database',
          schema: 'main',
          schemas_and_paths: { main: 'path/to/dbt.db', ...paths },
          schema_directory: 'path/to',
        },
      },
    },
  });
}
