import type { Dictionary, DictionaryColumn, DictionaryTable } from '../../../serve/dictionary/read-dictionary.ts';
import { plainName, stagingName, withoutJinja } from './names.ts';

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
export type DbtTest = string | Record<string, object>;

export interface DbtColumn {
  name: string;
  description?: string;
  data_type: string;
  quote?: true;
  data_tests?: DbtTest[];
}

/** The live views of a source, each with the model that shows it. */
export function stagedViews({ dictionary: { source, tables } }: DbtSource): Staged[] {
  return tables
    .filter(({ kind }) => kind === 'live')
    .map((view) => ({ view, source: plainName(source), model: stagingName(source, view.table ?? view.name) }));
}

/** Columns with their tests; `target` says how a test names the table that another one's key is looked up in. */
export function dbtColumns(
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
