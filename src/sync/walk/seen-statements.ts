import type { CompiledQuery } from 'kysely';
import type { PageFacts, PageOutcome } from '../../load/page-loader.ts';
import { resolveUnseenRejects } from '../../state/rejects.ts';
import { forgetSeen, rememberSeen } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { SEVERAL } from '../cursor/move-cursor.ts';
import type { WalkProof } from '../prove-walk.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { Page } from '../../extract/page.ts';
import { joinPosition, splitPosition } from '../../extract/partition-position.ts';
import { storedPosition } from './stored-position.ts';

/** A page of a walk as it is committed. */
export interface CommittedPage {
  page: Page;
  facts: PageFacts;
  counted: PageOutcome;
  /** The checkpoint before it. */
  before: CheckpointRow;
  /** Null before the last page. */
  proof: WalkProof | null;
}

type SeenContext = Pick<ResourceContext, 'profile' | 'scrub'> & {
  warehouse: Pick<ResourceContext['warehouse'], 'own'>;
};

/** Remembers a page of the walk, and forgets other walks and those that are done; belongs to its transaction. */
export function seenStatements(context: SeenContext, committed: CommittedPage, after: CheckpointRow): CompiledQuery[] {
  const { own } = context.warehouse;
  const { facts, before, proof } = committed;
  const { resource, walk_started_at: walkStartedAt } = before;
  // What another walk has met proves nothing about this one.
  const begun = before.walk_pages === 0 ? [forgetSeen(own, resource)] : [];
  if (walkStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  // A listing without any record proves nothing; nor does a walk that may not be swept after.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const isSwept = isFull && proof?.maySweep !== false && isSweepable(before) && !isEmpty;
  const isKept = isSwept || !isDone;
  const statements = isKept ? [...begun, seenRow(context, committed, walkStartedAt)] : [forgetSeen(own, resource)];
  if (!isFull || !isDone || proof?.isProved !== true || after.last_success_at === null) return statements;
  // A whole full walk has met every record: rejects that it did not meet no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/**
 * By this row a resumed scan counts what it has seen before. Only where pages are cut by number does it read that page
 * again, to see whether the listing has moved.
 */
function seenRow(
  { warehouse: { own }, profile, scrub }: SeenContext,
  { page: { position, keys, isNumbered }, facts, before }: CommittedPage,
  walkStartedAt: string,
): CompiledQuery {
  const { place } = splitPosition(position);
  const kept = isNumbered ? position : place === null ? null : joinPosition(place, '');
  return rememberSeen(own, {
    resource: before.resource,
    walk_started_at: walkStartedAt,
    page: before.walk_pages,
    unkeyed: facts.unkeyed,
    ids: keys,
    position: storedPosition(kept, profile.query, scrub),
  });
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function isSweepable({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
