import type { CompiledQuery } from 'kysely';
import { keyRecords } from '../../load/key-records.ts';
import type { PageFacts, PageOutcome } from '../../load/page-loader.ts';
import { resolveUnseenRejects } from '../../state/rejects.ts';
import { forgetSeen, rememberSeen } from '../../state/seen.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { SEVERAL } from '../cursor/move-cursor.ts';
import type { WalkProof } from '../prove-walk.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { JoinedPage } from './joined-page.ts';
import { storedPosition } from './stored-position.ts';

/** A page of a walk, or several as one, as it is committed. */
export interface CommittedPage {
  page: JoinedPage;
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
  const statements = isKept ? [...begun, ...rowsOf(context, committed, walkStartedAt)] : [forgetSeen(own, resource)];
  if (!isFull || !isDone || proof?.isProved !== true || after.last_success_at === null) return statements;
  // A whole full walk has met every record: rejects that it did not meet no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, walkStartedAt, after.last_success_at)];
}

/** A row for each page of the service, by which a walk that goes on proves its place. */
function rowsOf(
  { warehouse: { own }, profile, scrub }: SeenContext,
  { page: { parts }, facts, before }: CommittedPage,
  walkStartedAt: string,
): CompiledQuery[] {
  const { resource, walk_pages: first } = before;
  // Mostly there is none.
  const isShared = parts.length > 1 && facts.unkeyed > 0;
  return parts.map(({ position, keys, records }, index) =>
    rememberSeen(own, {
      resource,
      walk_started_at: walkStartedAt,
      page: first + index,
      unkeyed: isShared ? keyRecords(records, profile).setAside.length : facts.unkeyed,
      ids: keys,
      position: storedPosition(position, profile.query, scrub),
    }),
  );
}

/**
 * True for a walk after which what it has not met may be looked for: not the first one, which finds nothing to miss,
 * and none that was made under several credentials, of which each may be allowed to see something else.
 */
function isSweepable({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL;
}
