import type { ResourceShape, TableShape } from '../model/table.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { ExistingColumn } from './planned-view.ts';
import type { ViewDialect } from '../database/view-dialect.ts';

/** What a profile says of a resource that its views go by. */
export interface ViewProfile extends Pick<
  ResourceProfile,
  'id' | 'description' | 'fields' | 'state' | 'times' | 'updated' | 'windows'
> {
  history: HistoryPolicy;
}

/** A resource that has tables. */
export interface ViewedResource extends ResourceShape {
  profile: ViewProfile;
  /** What `_sync_columns` says of each column, by table and column. */
  comments: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** True if files of its records are copied, or were. */
  hasFiles: boolean;
}

/** A column that holds the key of another resource: both are there. */
export interface Relation {
  from: { resource: string; table: TableShape; column: string };
  to: { resource: string; table: TableShape; column: string };
}

/** All that views are made of: the tables of a source, as they are or are about to be, in the order of the profile. */
export interface ViewModel {
  resources: readonly ViewedResource[];
  relations: readonly Relation[];
  /** Names of the resources that are copied, also of those without tables. */
  copied: readonly string[];
  dialect: ViewDialect;
  /** The columns that the views have in the database, by view. */
  existing: ReadonlyMap<string, readonly ExistingColumn[]>;
}
