import type { Years } from '../model/calendar-day.ts';
import type { ResourceShape } from '../model/table.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { ShapeProfile } from '../shape/shape-tree.ts';
import type { TimestampText } from './own-tables.ts';

/** How the records of a resource become rows. A value: another one is another object. */
export interface ShapingPlan {
  shape: ResourceShape;
  profile: ShapeProfile;
  history: HistoryPolicy;
  /** The name of the field that is a record's key, and that of its time of change, if one tells it. */
  fields: { id: string; updated: string | null };
  /** By which times are told that people may mean. */
  year: number;
}

/** A body with records that are still to be read. */
export interface BodyToShape {
  bytes: Buffer;
  /** Of each record the position where it begins and the one after it. */
  borders: readonly number[];
  /** True if the body has no backslash and no long number. */
  isPlain: boolean;
  requestedAt: TimestampText;
}

/** The records of a body as rows, taken to be new, and what is left to be known of each. */
export interface ShapedBody {
  records: readonly ShapedRecord[];
  /** Of the times in the rows; null if there are none. */
  years: Years | null;
  /** As in `ShapedPage`. */
  overflowed: number;
  discarded: number;
  repaired: number;
}

export interface ShapedRecord {
  id: string | number;
  updated: string | number | null;
  /** As it stands in the row. */
  hash: string;
}

/** Reads records and makes rows of them beside this thread. */
export interface PageShaper {
  /**
   * Null if they are to be read here: there is no thread for them, a record is to be set aside, or it has a value that no
   * column takes yet. Never rejects.
   */
  shape(plan: ShapingPlan, body: BodyToShape): Promise<ShapedBody | null>;
}
