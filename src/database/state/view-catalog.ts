import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText, ViewColumnRow, ViewRow } from '../own-tables.ts';
import { upsertRows } from './in-parts.ts';

/** A managed view as it is created. */
export interface MadeView extends Omit<ViewRow, 'made_at'> {
  /** In their order. */
  columns: readonly Omit<ViewColumnRow, 'view_name' | 'position' | 'first_seen'>[];
}

/** An existing view with its columns in order. */
export interface StoredView {
  view: ViewRow;
  columns: readonly ViewColumnRow[];
}

/** The columns of `_sync_view_columns` that a new definition replaces. */
const REPLACED = ['position', 'type', 'source_path', 'description', 'refers_to', 'is_computed'] as const;

/** The existing views, by name. */
export async function readViews(own: Kysely<OwnTables>): Promise<Map<string, StoredView>> {
  const views = await own.selectFrom('_sync_views').selectAll().orderBy('view_name').execute();
  // Not all: version 0.1 has created a column that is no longer used.
  const columns = await own
    .selectFrom('_sync_view_columns')
    .select(['view_name', 'column_name', 'first_seen', ...REPLACED])
    .orderBy('position')
    .execute();
  const byView = Map.groupBy(columns, ({ view_name }) => view_name);
  return new Map(views.map((view) => [view.view_name, { view, columns: byView.get(view.view_name) ?? [] }]));
}

/** How often tables and views have changed: to be read before the state from which a change is planned. */
export async function readGrowths(own: Kysely<OwnTables>): Promise<number> {
  const { growths } = await own.selectFrom('_sync_growth').select('growths').executeTakeFirstOrThrow();
  return growths;
}

/** Increments the count; changes no row if another change was made since. */
export function claimGrowth(own: Kysely<OwnTables>, growths: number): CompiledQuery {
  return own
    .updateTable('_sync_growth')
    .set({ growths: growths + 1 })
    .where('growths', '=', growths)
    .compile();
}

/** Stores views as they are created; a column that a view already had keeps its `first_seen`. */
export function rememberViews(own: Kysely<OwnTables>, made: readonly MadeView[], at: TimestampText): CompiledQuery[] {
  const views = made.map(({ columns: _columns, ...view }) => ({ ...view, made_at: at }));
  const columns = made.flatMap(({ view_name, columns: all }) =>
    all.map((column, position) => ({ view_name, position, first_seen: at, ...column })),
  );
  return [
    ...upsertRows(own, '_sync_views', views, ['view_name'], ['resource', 'query', 'description', 'made_at']),
    ...upsertRows(own, '_sync_view_columns', columns, ['view_name', 'column_name'], REPLACED),
  ];
}

export function renameView(own: Kysely<OwnTables>, former: string, name: string): CompiledQuery[] {
  return (['_sync_views', '_sync_view_columns'] as const).map((table) =>
    own.updateTable(table).set({ view_name: name }).where('view_name', '=', former).compile(),
  );
}

/** Has all views created again with their current columns, whatever changes are planned. */
export function forgetViews(own: Kysely<OwnTables>): CompiledQuery[] {
  const growth = own.updateTable('_sync_growth').set(({ eb }) => ({ growths: eb('growths', '+', 1) }));
  return [own.updateTable('_sync_views').set({ query: '' }).compile(), growth.compile()];
}

/** The columns of all views in their order. */
export async function viewColumns(own: Kysely<OwnTables>): Promise<Map<string, string[]>> {
  const views = await readViews(own);
  return new Map([...views].map(([name, { columns }]) => [name, columns.map(({ column_name }) => column_name)]));
}
