import type { CompiledQuery } from 'kysely';
import type { ResourceShape } from '../model/table.ts';
import type { ViewChange } from './view-dialect.ts';
import type { LeaseProof } from './lease-proof.ts';

/** Tables that are made, empty, beside those of a resource. */
export interface TableStaging {
  lease: LeaseProof;
  shape: ResourceShape;
  /** The names that they get, by those of the shape; what stands under one is dropped. */
  names: ReadonlyMap<string, string>;
  /** As in a growth. */
  references: ReadonlySet<string>;
}

/** Staged tables that take the place of others, committed whole or not at all. */
export interface TableSwap extends TableStaging {
  /** All tables of the resource that stand. */
  dropped: readonly string[];
  /** Names of all views of ours that stand, each with its columns in their order: those on tables that are no more stay, empty. */
  standing: ReadonlyMap<string, readonly string[]>;
  /** All views of ours, as in a growth. None shows another type than it does now. */
  views: readonly ViewChange[];
  comments: readonly { table: string; column: string | null; base: string; comment: string }[];
  statements: readonly CompiledQuery[];
  claim: CompiledQuery;
}
