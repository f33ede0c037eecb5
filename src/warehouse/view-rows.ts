import type { ColumnType } from '../model/vocabulary.ts';

/** A view that people read, as it was made. Times are UTC text, as in all our own tables. */
export interface ViewRow {
  view_name: string;
  /** Null for a view of the whole source. */
  resource: string | null;
  query: string;
  description: string;
  made_at: string;
}

export interface ViewColumnRow {
  view_name: string;
  column_name: string;
  position: number;
  /** As the view shows it. */
  type: ColumnType;
  source_path: string | null;
  description: string | null;
  /** `content.id` if it holds the key of another resource. */
  refers_to: string | null;
  /** 1 if it is computed from the values at `source_path`. */
  is_computed: 0 | 1;
  first_seen: string;
}

/** A single row. */
export interface GrowthRow {
  id: 1;
  /** How often tables and views have changed. */
  growths: number;
}

/** One delete of a record. */
export interface DeleteRow {
  resource: string;
  id: string;
  /** The record's version that says it. */
  version: number;
  /** The service's own time where it has named one, else when it was asked. */
  deleted_at: string;
  /** When the service was asked and had the record again; null as long as it is gone. */
  restored_at: string | null;
}
