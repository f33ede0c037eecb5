import { timestampText } from '../../model/timestamp-text.ts';
import type { ViewDialect } from '../../warehouse/view-dialect.ts';
import type { Dictionary, DictionaryColumn, DictionaryTable, ExampleQuery } from './dictionary.ts';

type Described = Pick<Dictionary, 'tables' | 'relations'>;

/** A few queries that run on this copy, with the names that it has; `at` is the moment to look back from. */
export function exampleQueries(described: Described, dialect: ViewDialect, at: number): ExampleQuery[] {
  return [
    ...byMonth(described, dialect),
    ...byRelation(described, dialect),
    ...byChild(described, dialect),
    ...asOf(described, dialect, at),
    ...changed(described, dialect),
  ];
}

/** Names as most people write them; whatever is no plain word is quoted. Columns are never reserved words here. */
function plain(name: string, dialect: ViewDialect): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : dialect.id(name);
}

function liveOf({ tables }: Described, table: string): DictionaryTable | undefined {
  return tables.find((each) => each.kind === 'live' && each.table === table);
}

/** Views of whole records, the most telling ones first: those with many columns. */
function recordViews({ tables, relations }: Described): DictionaryTable[] {
  const children = new Set(relations.filter(({ kind }) => kind === 'child').map(({ from }) => from.table));
  const views = tables.filter(({ kind, table }) => kind === 'live' && !children.has(table ?? ''));
  return views.toSorted((a, b) => b.columns.length - a.columns.length);
}

/** What most questions of time are about, the best first. */
const TELLING = ['published', 'created', 'date', 'updated'];

function timeOf({ columns }: DictionaryTable): DictionaryColumn | undefined {
  const times = columns.filter(({ type, source }) => source !== null && (type === 'timestamp' || type === 'date'));
  const told = TELLING.flatMap((word) => times.find(({ name }) => name.startsWith(word)) ?? []);
  return told[0] ?? times[0];
}

function byMonth(described: Described, dialect: ViewDialect): ExampleQuery[] {
  const view = recordViews(described).find((each) => timeOf(each) !== undefined);
  const time = view === undefined ? undefined : timeOf(view);
  if (view === undefined || time === undefined) return [];
  const month = dialect.month(plain(time.name, dialect), time.type);
  const sql = `SELECT ${month} AS month, count(*) AS records
FROM ${plain(view.name, dialect)}
WHERE ${plain(time.name, dialect)} IS NOT NULL
GROUP BY 1
ORDER BY 1`;
  return [{ title: `Records of ${view.name} per month of ${time.name}`, sql }];
}

function label({ columns }: DictionaryTable, key: string): string {
  const texts = columns.filter(({ type, isKey }) => type === 'text' && !isKey);
  const words = ['title', 'name', 'slug', 'handle'];
  const named = words.flatMap((word) => texts.find(({ name }) => name.includes(word)) ?? []);
  return (named[0] ?? texts[0])?.name ?? key;
}

function byRelation(described: Described, dialect: ViewDialect): ExampleQuery[] {
  const relation = described.relations.find(({ kind }) => kind === 'reference');
  return relation === undefined ? [] : joined(described, relation, dialect);
}

function byChild(described: Described, dialect: ViewDialect): ExampleQuery[] {
  const relation = described.relations.find(({ kind }) => kind === 'child');
  return relation === undefined ? [] : joined(described, relation, dialect);
}

function joined(
  described: Described,
  { from, to }: Described['relations'][number],
  dialect: ViewDialect,
): ExampleQuery[] {
  const [many, one] = [liveOf(described, from.table), liveOf(described, to.table)];
  if (many === undefined || one === undefined) return [];
  const [key, shown] = [to.column, label(one, to.column)].map((name) => `one.${plain(name, dialect)}`);
  const columns = key === shown ? key : `${key}, ${shown}`;
  const reference = `many.${plain(from.column, dialect)}`;
  const sql = `SELECT ${columns}, count(${reference}) AS records
FROM ${plain(one.name, dialect)} AS one
LEFT JOIN ${plain(many.name, dialect)} AS many ON ${reference} = ${key}
GROUP BY ${columns}
ORDER BY records DESC, ${key}
LIMIT 20`;
  return [{ title: `How many of ${many.name} belong to each of ${one.name}`, sql }];
}

function asOf({ tables }: Described, dialect: ViewDialect, at: number): ExampleQuery[] {
  const history = tables.find(({ kind }) => kind === 'history');
  if (history === undefined) return [];
  const moment = dialect.at(timestampText(at));
  const sql = `SELECT *
FROM ${plain(history.name, dialect)}
WHERE valid_from <= ${moment}
  AND (valid_to > ${moment} OR valid_to IS NULL)
  AND NOT is_deleted
LIMIT 20`;
  return [{ title: `${history.name} as of a moment`, sql }];
}

function changed({ tables }: Described, dialect: ViewDialect): ExampleQuery[] {
  const changes = tables.find(({ kind }) => kind === 'changes');
  if (changes === undefined) return [];
  const sql = `SELECT field, count(*) AS changes
FROM ${plain(changes.name, dialect)}
GROUP BY field
ORDER BY changes DESC, field
LIMIT 20`;
  return [{ title: `Which fields change most in ${changes.name}`, sql }];
}
