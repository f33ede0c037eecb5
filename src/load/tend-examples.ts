import type { Column, TableShape } from '../model/table.ts';
import { pathText } from '../shape/columns/source-path.ts';
import { columnsToLookAt, saveTexts } from '../state/column-catalog.ts';
import { countGrowth } from '../state/view-catalog.ts';
import { refreshViews } from './evolve-tables.ts';
import { exampleOf, mayBeShown } from './example-value.ts';
import type { LoadContext } from './load-context.ts';

/** Rows of a table that are looked at. */
const ROWS = 300;

/**
 * Adds to what is said of each column a value that belongs to nobody, where there is one. Values are looked at once,
 * behind the first walk that brings a column.
 */
export async function tendExamples(context: LoadContext): Promise<void> {
  const { warehouse, owned } = context;
  const { shape, resource } = owned;
  if (shape === null) return;
  const unseen = await columnsToLookAt(warehouse.own, resource);
  if (unseen.size === 0) return;
  const found = await Promise.all(
    shape.tables.map(async (table) => {
      const columns = table.columns.filter(({ name }) => unseen.get(table.name)?.has(name));
      const examples = await examplesOf(context, table, columns);
      return columns.map(({ name }) => ({ table: table.name, column: name, text: examples.get(name) ?? '' }));
    }),
  );
  const statements = saveTexts(warehouse.own, 'example', found.flat());
  await warehouse.apply([...statements, countGrowth(warehouse.own)], owned.lease());
  await refreshViews(context);
}

/** By column; those without one that may be shown are left out. References tell records apart, as keys do. */
async function examplesOf(
  { warehouse, whole: { relations }, profile: { fields } }: LoadContext,
  table: TableShape,
  columns: readonly Column[],
): Promise<Map<string, string>> {
  const isHashed = ({ path }: Column): boolean => {
    const field = pathText(path);
    return Object.hasOwn(fields, field) && fields[field]?.hash === true;
  };
  const shown = columns.filter(
    (column) =>
      mayBeShown(table.name, column) && !isHashed(column) && !Object.hasOwn(relations, `${table.name}.${column.name}`),
  );
  if (shown.length === 0) return new Map();
  const rows = await warehouse.sample(table, shown, ROWS);
  const examples = shown.map(({ name, type }) => {
    const values = rows.map((row) => row[name] ?? null);
    return [name, exampleOf(type, values)] as const;
  });
  return new Map(examples.flatMap(([name, example]) => (example === null ? [] : [[name, example] as const])));
}
