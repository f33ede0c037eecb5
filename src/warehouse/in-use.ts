import { ConfigError } from '../model/errors.ts';

/** A column of a table that cannot widen, because something stands on it that others made. */
export interface UsedColumn {
  table: string;
  column: string;
  /** Such as `view reports.mine (of reporting)`. */
  by: string;
}

/** A view of ours that cannot show another type, for the same reason. */
export interface UsedView {
  view: string;
  by: string;
}

/** For a growth that others' views, indexes or constraints do not follow: nothing of it was done. */
export class InUse extends ConfigError {
  readonly columns: readonly UsedColumn[];
  readonly views: readonly UsedView[];

  constructor(columns: readonly UsedColumn[], views: readonly UsedView[], cause?: unknown) {
    const places = [...columns.map(({ table, column }) => `${table}.${column}`), ...views.map(({ view }) => view)];
    const by = [...new Set([...columns, ...views].map((each) => each.by))].join(', ');
    super('column_in_use', `${[...new Set(places)].join(', ')} must widen, and something stands on it: ${by}`, {
      hint: 'drop it, run the same command again, and make it again to fit, best on the views of the copy',
      cause,
    });
    this.columns = columns;
    this.views = views;
  }
}
