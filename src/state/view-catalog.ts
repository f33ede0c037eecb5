import type { CompiledQuery, Kysely } from 'kysely';
import type { OwnTables, TimestampText } from '../warehouse/own-tables.ts';
import type { ViewColumnRow, ViewRow } from '../warehouse/view-rows.ts';

/** A view of ours as it was made. */
export interface MadeView extends Omit<ViewRow, 'made_at'> {
  /** In their order. */
  columns: readonly Omit<ViewColumnRow, 'view_name' | 'position' | 'first_seen' | 'promised_at'>[];
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
export function countGrowth(own: Kysely<OwnTables>): CompiledQuery {
  return own
    .updateTable('_sync_growth')
    .set(({ eb }) => ({ growths: eb('growths', '+', 1) }))
    .compile();
}

/**
 * The statements that remember a view as it is made, instead of as it is stored; a column that it had keeps the time at
 * which it came.
 */
export function rememberView(
  own: Kysely<OwnTables>,
  made: MadeView,
  stored: StoredView | undefined,
  at: TimestampText,
): CompiledQuery[] {
  const { columns, ...view } = made;
  const row = { ...view, made_at: at };
  const upsert = own
    .insertInto('_sync_views')
    .values(row)
    .onConflict((conflict) => conflict.column('view_name').doUpdateSet(row))
    .compile();
  const known = new Map(stored?.columns.map((column) => [column.column_name, column]));
  const rows = columns
    .map((column, position) =>
      Object.assign({ view_name: view.view_name, position, first_seen: at, promised_at: null }, column),
    )
    .filter((column) => !isSaid(column, known.get(column.column_name)));
  if (rows.length === 0) return [upsert];
  // In one statement: a view of hundreds of columns would be hundreds of round trips.
  const ofColumns = own
    .insertInto('_sync_view_columns')
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(['view_name', 'column_name']).doUpdateSet((is) => ({
        position: is.ref('excluded.position'),
        type: is.ref('excluded.type'),
        source_path: is.ref('excluded.source_path'),
        description: is.ref('excluded.description'),
        refers_to: is.ref('excluded.refers_to'),
      })),
    )
    .compile();
  return [upsert, ofColumns];
}

/** The statements that remember a view under another name, with all that it has promised. */
export function renameView(own: Kysely<OwnTables>, former: string, name: string): CompiledQuery[] {
  return (['_sync_views', '_sync_view_columns'] as const).map((table) =>
    own.updateTable(table).set({ view_name: name }).where('view_name', '=', former).compile(),
  );
}

const SAID = ['position', 'type', 'source_path', 'description', 'refers_to'] as const;

function isSaid(column: ViewColumnRow, stored: ViewColumnRow | undefined): boolean {
  return stored !== undefined && SAID.every((name) => column[name] === stored[name]);
}

/**
 * The statements that forget how views were made, so that all are made again, and keep what they have promised:
 * `since` is the walk of the resource that is forgotten with them.
 */
export function forgetViews(
  own: Kysely<OwnTables>,
  resource: string,
  since: TimestampText | null,
  at: TimestampText,
): CompiledQuery[] {
  const promise = own
    .updateTable('_sync_view_columns')
    .set({ promised_at: at })
    .where('first_seen', '<', since ?? '')
    .where('view_name', 'in', (views) =>
      views.selectFrom('_sync_views').select('view_name').where('resource', '=', resource),
    );
  const forget = own.updateTable('_sync_views').set({ query: '' });
  return [...(since === null ? [] : [promise.compile()]), forget.compile(), countGrowth(own)];
}

/** The columns of all views in their order. */
export async function viewColumns(own: Kysely<OwnTables>): Promise<Map<string, string[]>> {
  const views = await readViews(own);
  return new Map([...views].map(([name, { columns }]) => [name, columns.map(({ column_name }) => column_name)]));
}
