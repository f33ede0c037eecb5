// The model of managed views: their columns, and the tables and relations that they are planned from.
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { ViewDialect } from '../database/view-dialect.ts';
import type { ResourceShape, TableShape } from '../model/table.ts';
import { visibleText } from '../model/visible-text.ts';
import type { ColumnType, HistoryPolicy } from '../model/vocabulary.ts';
import { cutToBytes, pathText } from '../rows/columns/column-name.ts';
import { textHash } from '../rows/records/record-key.ts';

/** A column of a view, and the SQL expression of its values. */
export interface ViewColumn {
  name: string;
  /** The type of `sql`; the view may show a wider one (see `planView`). */
  type: ColumnType;
  /** Over the tables of the view's `from`; a bare column if possible, because expressions have no type in SQLite. */
  sql: string;
  description: string | null;
  /** The path from the record to the value, such as `seo.image.id`; null if it is not a field of the source. */
  source: string | null;
  /** True if it is computed from the values at `source`, such as a list as a text. */
  isComputed?: true;
  /** `content.id` if it holds the key of another resource. */
  references: string | null;
}

/** A view as it would be created in an empty database. */
export interface View {
  name: string;
  /** The resource that it shows; null for views of the whole source. */
  resource: string | null;
  description: string;
  columns: readonly ViewColumn[];
  /** The query from FROM on, on one line, with its leading space; or an empty text. */
  from: string;
  /**
   * The name of a function that returns its rows as of a timestamp, on databases that have such functions: those between
   * `valid_from` and `valid_to`, without deleted ones.
   */
  asOf?: string;
}

/** A column that a view has in the database. */
export interface ExistingColumn {
  name: string;
  type: ColumnType;
  /** The path of the source field; null for a computed column. */
  source: string | null;
}

/** A column of a planned view; `type` is the one that it shows. */
export interface PlannedColumn extends ViewColumn {
  /** The wider type that its values need, if external objects prevent the view from changing (`held`). */
  needs?: ColumnType | undefined;
  /** True if no field fills it any more. */
  isEmpty?: true;
}

/** A view as it is to be created. */
export interface PlannedView extends Omit<View, 'from'> {
  columns: readonly PlannedColumn[];
  query: string;
  /** Its current name in the database, if a table needs that name now. */
  former?: string;
}

/** Views that others can be built on, by the name that they have unless a table has it. */
export type PlannedViews = ReadonlyMap<string, PlannedView>;

/** A column of a view that is not a field of the source. */
export function columnWithoutSource(
  name: string,
  type: ColumnType,
  sql: string,
  description: string | null,
): ViewColumn {
  return { name, type, sql, description, source: null, references: null };
}

const MAX_NAME_BYTES = 63;
const HASH_LENGTH = 8;

/** Shortens a name that is too long: its beginning, and a hash of the whole. */
export function cutName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  return `${cutToBytes(name, MAX_NAME_BYTES - HASH_LENGTH - 1)}_${textHash(name).slice(0, HASH_LENGTH)}`;
}

/** The part of a profile on which the views of a resource depend. */
export interface ViewProfile extends Pick<
  ResourceProfile,
  'id' | 'description' | 'fields' | 'state' | 'times' | 'updated' | 'windows'
> {
  history: HistoryPolicy;
}

/** A resource that has tables: its main table first, then those of its lists. */
export interface ViewedResource extends ResourceShape {
  profile: ViewProfile;
  /** The comments in `_sync_columns`, by table and column. */
  comments: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** True if files of its records are copied, or were. */
  hasFiles: boolean;
}

/** A column that holds the key of another resource; both exist. */
export interface Relation {
  from: { resource: string; table: TableShape; column: string };
  to: { resource: string; table: TableShape; column: string };
}

/** The input for planning views: the tables of a source after a change, in the order of the profile. */
export interface ViewModel {
  resources: readonly ViewedResource[];
  relations: readonly Relation[];
  /** Names of the resources that are copied, also of those without tables. */
  copied: readonly string[];
  dialect: ViewDialect;
  /** The columns that the views have in the database, by view. */
  existing: ReadonlyMap<string, readonly ExistingColumn[]>;
}

/** Returns the column of the view that shows a column of its table. */
export function findColumn({ columns }: PlannedView, table: TableShape, name: string): PlannedColumn | undefined {
  const path = table.columns.find((column) => column.name === name)?.path;
  if (path === undefined) return columns.find((column) => column.name === name);
  return columns.find((column) => fieldOf(column) === visibleText(pathText(path)));
}

/** The path of the field that the column shows; null for a computed one. */
export function fieldOf({ source, isComputed }: ViewColumn): string | null {
  return isComputed === true ? null : source;
}
