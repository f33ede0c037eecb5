import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';
import type { ViewColumnRow, ViewRow } from '../warehouse/view-rows.ts';

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
  const columns = await own.selectFrom('_sync_view_columns').selectAll().orderBy('position').execute();
  const byView = Map.groupBy(columns, ({ view_name }) => view_name);
  return new Map(views.map((view) => [view.view_name, { view, columns: byView.get(view.view_name) ?? [] }]));
}

/** The statements that remember a view as it is made; a column that it had keeps the time at which it came. */
export function rememberView(own: Kysely<OwnTables>, made: MadeView, at: TimestampText): CompiledQuery[] {
  const { columns, ...view } = made;
  const row = { ...view, made_at: at };
  const upsert = own
    .insertInto('_sync_views')
    .values(row)
    .onConflict((conflict) => conflict.column('view_name').doUpdateSet(row))
    .compile();
  const ofColumns = columns.map((column, position) => {
    const known = { ...column, position };
    return own
      .insertInto('_sync_view_columns')
      .values({ ...known, view_name: view.view_name, first_seen: at })
      .onConflict((conflict) => conflict.columns(['view_name', 'column_name']).doUpdateSet(known))
      .compile();
  });
  return [upsert, ...ofColumns];
}
