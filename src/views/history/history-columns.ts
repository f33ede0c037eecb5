import { EACH, keysOf, OVERFLOW, pathText } from '../../shape/columns/source-path.ts';
import type { Column, TableShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { LOCAL, zoneNameAt } from '../../model/time-zone.ts';
import type { PlannedView } from '../planned-view.ts';
import type { ViewColumn } from '../view.ts';
import type { ViewedResource, ViewModel } from '../view-model.ts';

/** Columns of ours that a view of live rows has beside those of the source. */
const OF_LIVE: ReadonlySet<string> = new Set(['_synced_at', 'is_published']);

/** What the record held in a version, named and typed as the view of live rows shows it; then its lists. */
export function recordColumns(
  { dialect }: ViewModel,
  resource: ViewedResource,
  live: PlannedView,
  taken: ReadonlySet<string>,
): ViewColumn[] {
  const [own] = resource.tables;
  if (own === undefined) return [];
  const byName = new Map(own.columns.map((column) => [column.name, column]));
  const shown = live.columns.filter(
    ({ name, source }) =>
      !own.key.includes(name) && !(OF_LIVE.has(name) && source === null) && byName.get(name)?.path.at(-1) !== OVERFLOW,
  );
  const columns = shown.map((column): ViewColumn => {
    const { type, description, source, references } = column;
    const name = freeColumn(column.name, taken);
    return { name, type, sql: shownValue(column, byName), description, source, references };
  });
  const names = new Set([...taken, ...columns.map(({ name }) => name)]);
  return [...columns, ...listColumns(dialect, resource, names)];

  function shownValue(column: ViewColumn, known: ReadonlyMap<string, Column>): string {
    const { name, type } = column;
    const held = known.get(name);
    if (held !== undefined) {
      const value = valueOf(held);
      return held.type === type ? value : dialect.once(value, (sql) => dialect.converted(sql, held.type, type));
    }
    const full = name.endsWith(TEXT) ? known.get(name.slice(0, -TEXT.length)) : undefined;
    if (full === undefined || type !== 'text') return dialect.converted('NULL', 'text', type);
    return dialect.once(valueOf(full), (sql) => dialect.text(sql, full.type));
  }

  function valueOf({ path, type }: Column): string {
    const { times, fields } = resource.profile;
    const zone = zoneNameAt(times, pathText(path));
    const value = dialect.bodies.value(keysOf(path), type, zone === LOCAL ? null : zone);
    if (fields[pathText(path)]?.type !== type || type === 'text' || type === 'json') return value;
    // A type that the profile gives takes values that are written otherwise.
    const text = dialect.bodies.value(keysOf(path), 'text', null);
    return `COALESCE(${value}, ${dialect.once(text, (sql) => dialect.converted(sql, 'text', type))})`;
  }
}

/** Ends the name of a column that shows another one in full. */
const TEXT = '_text';

/** A field of the source that is called as a column of the view is. */
export function freeColumn(name: string, taken: ReadonlySet<string>): string {
  return taken.has(name) ? `source_${name}` : name;
}

/** The lists within the record itself; those within lists are part of them. */
function listColumns(
  dialect: ViewModel['dialect'],
  { tables }: ViewedResource,
  taken: ReadonlySet<string>,
): ViewColumn[] {
  const parent = `${tables[0]?.name ?? ''}_`;
  return tables.filter(isFirstLevel).flatMap(({ name: table, path }) => {
    const keys = keysOf(path);
    // Tables of lists have names of their own, where two fields may be one in snake_case.
    const name = table.startsWith(parent) ? table.slice(parent.length) : table;
    // A field that was a list at one time and something else at another has a column that shows both.
    if (taken.has(name)) return [];
    const source = visibleText(pathText(path));
    return [
      {
        name,
        type: 'json',
        sql: dialect.bodies.list(keys),
        description: `The list ${source} as JSON, in the order of the service.`,
        source,
        references: null,
      },
    ];
  });
}

function isFirstLevel({ path }: TableShape): boolean {
  return path.length > 0 && path.indexOf(EACH) === path.length - 1;
}
