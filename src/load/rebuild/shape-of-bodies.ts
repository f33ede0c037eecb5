import type { ResourceShape, TableRows } from '../../model/table.ts';
import { shapeChanges } from '../../shape/evolve-shape.ts';
import { initialShape, shapeRecords } from '../../shape/shape-page.ts';
import { withNumeric } from '../grow-shape.ts';
import type { LoadContext } from '../load-context.ts';
import { storedPages } from './stored-pages.ts';

/**
 * The tables that a first backfill of the stored bodies would make, found out without writing anything. `taken` are the
 * names of tables and views of others.
 */
export async function shapeOfBodies(context: LoadContext, taken: ReadonlySet<string>): Promise<ResourceShape> {
  const { owned } = context;
  const profile = lenient(context);
  const exact = new Set<string>();
  let shape = initialShape(owned.resource, profile);
  for await (const records of storedPages(context)) {
    const grown = shapeRecords({ shape, profile, records, tableNames: taken });
    const found = withNumeric(grown.shape, numericColumns(shape, grown.shape, exact));
    const { shape: after, rows } =
      found === grown.shape ? grown : shapeRecords({ shape: found, profile, records, tableNames: taken });
    for (const table of rows) noteExact(table, exact);
    shape = after;
  }
  return shape;
}

/** Values that a contract left out stay left out, and no stored body may refuse a rebuild. */
export function lenient({ profile }: LoadContext): LoadContext['profile'] {
  return { ...profile, contract: profile.contract === 'evolve' ? 'evolve' : 'discard_value' };
}

/** The integer columns that become double although they hold digits that a double would lose. */
function numericColumns(before: ResourceShape, after: ResourceShape, exact: ReadonlySet<string>): Set<string> {
  const doubles = shapeChanges(before, after).filter(
    ({ from, column }) => from === 'integer' && column.type === 'double',
  );
  const names = doubles.map(({ table, column }) => `${table} ${column.name}`);
  return new Set(names.filter((name) => exact.has(name)));
}

function noteExact({ table, width, cells }: TableRows, exact: Set<string>): void {
  for (const [at, { name, type }] of table.columns.entries()) {
    if (type !== 'integer' || exact.has(`${table.name} ${name}`)) continue;
    for (let cell = table.key.length + at; cell < cells.length; cell += width) {
      const value = cells[cell];
      const isExact = (typeof value === 'bigint' || typeof value === 'number') && !Number.isSafeInteger(Number(value));
      if (isExact) exact.add(`${table.name} ${name}`);
    }
  }
}
