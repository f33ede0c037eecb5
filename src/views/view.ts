import type { ColumnType } from '../model/vocabulary.ts';
import { cutToBytes } from '../rows/columns/column-name.ts';
import { textHash } from '../rows/records/fingerprint.ts';

/** One column of a view. */
export interface ViewColumn {
  name: string;
  /** The type of `sql`; the view may show a wider one (`planned-view.ts`). */
  type: ColumnType;
  /** Over the tables of the view's `from`; a bare column where possible, because expressions have no type in SQLite. */
  sql: string;
  description: string | null;
  /** The way from the record to the value, such as `seo.image.id`; null if it is none of the source's. */
  source: string | null;
  /** True if it is computed from the values at `source`, such as a list as a text. */
  isComputed?: true;
  /** `content.id` if it holds the key of another resource. */
  references: string | null;
}

/** A view as it would be made in an empty database (see `planned-view.ts`). */
export interface View {
  name: string;
  /** The resource that it shows; null for views of the whole source. */
  resource: string | null;
  description: string;
  columns: readonly ViewColumn[];
  /** The query from FROM on, on one line, with its leading space; or an empty text. */
  from: string;
  /**
   * The name of a function of a moment that gives its rows of that moment, on databases that have such functions: those
   * between `valid_from` and `valid_to`, without deleted ones.
   */
  asOf?: string;
}

/** A column of a view that is none of the source's. */
export function ownColumn(name: string, type: ColumnType, sql: string, description: string | null): ViewColumn {
  return { name, type, sql, description, source: null, references: null };
}

const MAX_NAME_BYTES = 63;
const HASH_LENGTH = 8;

/** A name that is not too long; of one that is, the beginning with a hash of it behind. */
export function cutName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  return `${cutToBytes(name, MAX_NAME_BYTES - HASH_LENGTH - 1)}_${textHash(name).slice(0, HASH_LENGTH)}`;
}
