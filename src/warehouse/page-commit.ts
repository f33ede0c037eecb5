import type { CompiledQuery } from 'kysely';
import type { TableRows, TableShape } from '../model/table.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { LeaseProof } from './lease-proof.ts';
import type { TimestampText } from './own-tables.ts';

/** The stamps of a row of a resource's own table, and what is remembered of its record. */
export interface WrittenRecord {
  key: string;
  /** 1 is a record never seen before. */
  version: number;
  hash: string;
  /** Stands in `_synced_at` in place of the page's time: of a row that is only written again. */
  syncedAt?: TimestampText;
  /** The source as it came, UTF-8. */
  bytes: Buffer;
}

/** The part of a page that becomes rows. */
export interface PageRows {
  resource: string;
  history: HistoryPolicy;
  /** True if all rows are there already, and are written again. */
  isRewrite?: true;
  /** When the page was asked for: stands in `_synced_at` and `valid_from`, and a later one wins. */
  requestedAt: TimestampText;
  /** Rows per table, the resource's own table first; only what is new or changed. */
  rows: readonly TableRows[];
  /** All child tables of the resource: what a changed record had there goes, even if no new row comes. */
  children: readonly TableShape[];
  /** One per row of the resource's own table, in the same order. */
  records: readonly WrittenRecord[];
}

/** Everything that one page changes, committed whole or not at all. */
export interface PageCommit {
  rows: PageRows;
  lease: LeaseProof;
  /** Statements on own tables (checkpoint, rejects, ...) that belong to the same moment. */
  statements: readonly CompiledQuery[];
}
