import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText, ViewColumnRow, ViewRow } from '../own-tables.ts';
import { ROWS_PER_STATEMENT } from './column-catalog.ts';
import { inParts, newest } from './in-parts.ts';

/** A view of ours as it was made. */
export interface MadeView extends Omit<ViewRow, 'made_at'> {
  /** In their order. */
  columns: readonly Omit<ViewColumnRow, 'view_name' | 'position' | 'first_seen'>[];
}

/** A view as it stands, with its columns in their order. */
export interface StoredView {
  view: ViewRow;
  columns: readonly ViewColumnRow[];
}

/** The views that stand, by name, with the columns of each in their order. */
export async function readViews(own: Kysely<OwnTables>): Promise<Map<string, StoredView>> {
  const views = await own.selectFrom('_sync_views').selectAll().orderBy('view_name').execute();
  // Not all: version 0.1 has made one that is no longer used.
  const columns = await own.selectFrom('_sync_view_columns').select(COLUMNS).orderBy('position').execute();
  const byView = Map.groupBy(columns, ({ view_name }) => view_name);
  return new Map(views.map((view) => [view.view_name, { view, columns: byView.get(view.view_name) ?? [] }]));
}

/** How often tables and views have changed so far: to be read before what a change of them is planned from. */
export async function readGrowths(own: Kysely<OwnTables>): Promise<number> {
  const { growths } = await own.selectFrom('_sync_growth').select('growths').executeTakeFirstOrThrow();
  return growths;
}

/** The statement that counts one more; it changes nothing if there has been another one since. */
export function claimGrowth(own: Kysely<OwnTables>, growths: number): CompiledQuery {
  return own
    .updateTable('_sync_growth')
    .set({ growths: growths + 1 })
    .where('growths', '=', growths)
    .compile();
}

/** The statement that counts one more, whatever there was: for what views are planned from and no growth changes. */
function countGrowth(own: Kysely<OwnTables>): CompiledQuery {
  return own
    .updateTable('_sync_growth')
    .set(({ eb }) => ({ growths: eb('growths', '+', 1) }))
    .compile();
}

/**
 * The statements that remember views as they are made; a column that one had keeps the time at which it came. Few for
 * many views: each may have hundreds of columns.
 */
export function rememberViews(own: Kysely<OwnTables>, made: readonly MadeView[], at: TimestampText): CompiledQuery[] {
  const views = made.map(({ view_name, resource, query, description }) => {
    return { view_name, resource, query, description, made_at: at };
  });
  const columns = made.flatMap(({ view_name, columns: all }) =>
    all.map((column, position) => Object.assign({ view_name, position, first_seen: at }, column)),
  );
  return [
    ...inParts(views, ROWS_PER_STATEMENT).map((part) =>
      own
        .insertInto('_sync_views')
        .values(part)
        .onConflict((conflict) =>
          conflict.column('view_name').doUpdateSet(newest(['resource', 'query', 'description', 'made_at'])),
        )
        .compile(),
    ),
    ...inParts(columns, ROWS_PER_STATEMENT).map((part) =>
      own
        .insertInto('_sync_view_columns')
        .values(part)
        .onConflict((conflict) => conflict.columns(['view_name', 'column_name']).doUpdateSet(newest(SAID)))
        .compile(),
    ),
  ];
}

/** The statements that rename a stored view. */
export function renameView(own: Kysely<OwnTables>, former: string, name: string): CompiledQuery[] {
  return (['_sync_views', '_sync_view_columns'] as const).map((table) =>
    own.updateTable(table).set({ view_name: name }).where('view_name', '=', former).compile(),
  );
}

const SAID = ['position', 'type', 'source_path', 'description', 'refers_to', 'is_computed'] as const;
const COLUMNS = ['view_name', 'column_name', 'first_seen', ...SAID] as const;

/** The statements that have all views made again, with the columns that they have. */
export function forgetViews(own: Kysely<OwnTables>): CompiledQuery[] {
  return [own.updateTable('_sync_views').set({ query: '' }).compile(), countGrowth(own)];
}

/** The columns of all views in their order. */
export async function viewColumns(own: Kysely<OwnTables>): Promise<Map<string, string[]>> {
  const views = await readViews(own);
  return new Map([...views].map(([name, { columns }]) => [name, columns.map(({ column_name }) => column_name)]));
}
