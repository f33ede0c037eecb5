import { sql, type CompiledQuery } from 'kysely';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** Tables of ours whose texts may quote a record, with the columns of those; of a table that is not there, nothing. */
const QUOTING = ['_sync_runs', '_sync_notices', '_sync_verifications', '_sync_alerts', '_sync_pauses'] as const;
/** Columns that tell rows apart, or that other tables refer to. */
const KEYS: ReadonlySet<string> = new Set(['run_id', 'resource', 'id', 'name', 'version', 'kind']);

/**
 * The statements that take erased records out of what is said elsewhere: errors and warnings of runs, certificates,
 * examples of columns with the comments that show them.
 */
export async function eraseMentions(
  warehouse: Pick<Warehouse, 'own' | 'tableNames' | 'named'>,
  resource: string,
  erased: (text: string) => string,
  values: ReadonlySet<string>,
): Promise<CompiledQuery[]> {
  const { own } = warehouse;
  const there = await warehouse.tableNames();
  const quoted = QUOTING.filter((table) => there.has(table));
  const texts = await Promise.all(quoted.map((table) => eraseTexts(warehouse, table, erased)));
  const examples = await own
    .selectFrom('_sync_columns')
    .select(['table_name', 'column_name', 'example'])
    .where('resource', '=', resource)
    .where('role', '=', 'source')
    .execute();
  const shown = examples.filter(({ example }) => example !== null && isShown(example, values));
  return [
    ...texts.flat(),
    // Without a comment it is made anew, with the example that is found then.
    ...shown.map(({ table_name, column_name }) =>
      own
        .updateTable('_sync_columns')
        .set({ example: null, comment: null })
        .where('table_name', '=', table_name)
        .where('column_name', '=', column_name)
        .compile(),
    ),
  ];
}

/** Examples are shown as a cell is, or cut. */
function isShown(example: string, values: ReadonlySet<string>): boolean {
  if (example === '') return false;
  const start = example.replace(/…$/, '');
  return values.has(example) || [...values].some((value) => value.startsWith(start));
}

async function eraseTexts(
  { own, named }: Pick<Warehouse, 'own' | 'named'>,
  table: string,
  erased: (text: string) => string,
): Promise<CompiledQuery[]> {
  const { rows } = await sql<Record<string, unknown>>`SELECT * FROM ${named(table)}`.execute(own);
  const changed = new Map<string, CompiledQuery>();
  for (const row of rows) {
    for (const [column, value] of Object.entries(row)) {
      if (KEYS.has(column) || typeof value !== 'string') continue;
      const left = erased(value);
      if (left === value) continue;
      const name = sql.id(column);
      const update = sql`UPDATE ${named(table)} SET ${name} = ${left} WHERE ${name} = ${value}`;
      changed.set(JSON.stringify([column, value]), update.compile(own));
    }
  }
  return [...changed.values()];
}
