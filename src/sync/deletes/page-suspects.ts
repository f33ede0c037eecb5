import type { CompiledQuery } from 'kysely';
import type { OlderPolicy } from '../../load/difference.ts';
import type { LoadContext } from '../../load/load-context.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { canonicalHash } from '../../rows/records/fingerprint.ts';
import {
  forgetSuspects,
  suspectStated,
  readSuspects,
  suspectGone,
  suspectOlder,
} from '../../database/state/suspects.ts';
import type { SuspectRow, TimestampText } from '../../database/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import { listingDelayMs } from './sweep.ts';

/** The part of a suspect that a page may change. */
type Suspect = Pick<SuspectRow, 'record_id' | 'reason' | 'hash' | 'sweeps' | 'evidence_at'>;

/** The open suspects of a resource when a walk begins or goes on, and which walk it is. */
export interface WalkSuspects {
  /** Those that the walk's pages state, or show to be none of the resource's, are added to them. */
  suspects: Map<string, Suspect>;
  mode: WalkMode;
  walkStartedAt: TimestampText;
  /** What a listing has shown since may be late for the same reason as what this walk shows. */
  mayLagSince: TimestampText;
}

export async function openSuspects(
  context: ResourceContext,
  walk: Pick<WalkSuspects, 'mode' | 'walkStartedAt'>,
): Promise<WalkSuspects> {
  const { warehouse, owned } = context;
  const suspects = await readSuspects(warehouse.own, owned.resource, ['open', 'held', 'released']);
  // A record that lives again needs nobody's decision.
  const known = suspects.filter(
    ({ state, reason }) => state === 'open' || reason === 'stated' || reason === 'left_out',
  );
  const mayLagSince = timestampText(timestampMs(walk.walkStartedAt) - listingDelayMs(context));
  return { ...walk, mayLagSince, suspects: new Map(known.map((suspect) => [suspect.record_id, suspect])) };
}

/**
 * A walk accepts an older state of a record only if an earlier whole walk has shown the same state, so long before that one
 * lag of the listing does not explain both.
 */
export function olderPolicy({ suspects, mode, mayLagSince }: Omit<WalkSuspects, 'walkStartedAt'>): OlderPolicy {
  const shown = [...suspects].filter(
    ([, { reason, sweeps, evidence_at }]) => reason === 'older' && sweeps > 0 && evidence_at < mayLagSince,
  );
  const hashes = mode === 'full' ? shown.map(([key, { hash }]) => [key, hash ?? ''] as const) : [];
  return { acceptsOlder: false, seenBefore: new Map(hashes) };
}

/**
 * Forgets the suspicion of records that a page lists, and notes older states, tombstones and the rows of records that the
 * page shows to be none of the resource's any more; belongs to the page's transaction.
 * `requestedAt`: local epoch milliseconds just before the page was asked for.
 */
export function suspectStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  known: WalkSuspects,
  { keys, older, stated, lost }: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const { suspects, walkStartedAt } = known;
  const asked = timestampText(requestedAt);
  const listed = listedAgain(known, { keys, older, stated }, asked);
  const states = older.map(({ key, value }) => olderState(known, key, canonicalHash(value)));
  // A later page of this walk may show them to be records of the resource after all.
  const noted = { hash: null, sweeps: LEFT_OUT, evidence_at: asked } as const;
  for (const { key } of stated) suspects.set(key, { ...noted, record_id: key, reason: 'stated', sweeps: 0 });
  for (const { key } of lost) suspects.set(key, { ...noted, record_id: key, reason: 'left_out' });
  return [
    ...forgetSuspects(own, resource, listed, 'waiting'),
    ...suspectOlder(own, resource, states, walkStartedAt),
    ...suspectStated(own, { resource, reason: 'stated', evidence_at: asked }, stated),
    ...suspectLost(own, resource, lost, asked),
  ];
}

/** Mostly there is nothing to look for. */
function listedAgain(
  { suspects }: WalkSuspects,
  { keys, older, stated }: Pick<PageFacts, 'keys' | 'older' | 'stated'>,
  asked: TimestampText,
): string[] {
  if (suspects.size === 0) return [];
  const doubted = new Set([...older, ...stated].map(({ key }) => key));
  return keys.filter((key) => !doubted.has(key) && (suspects.get(key)?.evidence_at ?? '9') <= asked);
}

/** The record itself says that it is none of the resource's: as good as any number of walks that do not meet it. */
const LEFT_OUT = 2;

/**
 * Notes rows whose records an answer, asked for at `asked`, shows to be none of the resource's. An older state may come
 * from a replica that lags behind: that record is read alone where it can be.
 */
export function suspectLost(
  own: LoadContext['warehouse']['own'],
  resource: string,
  lost: PageFacts['lost'],
  asked: TimestampText,
): CompiledQuery[] {
  const open = { resource, state: 'open', evidence_at: asked, detail: null } as const;
  const keysOf = (isOlder: boolean): string[] => lost.flatMap((row) => (row.isOlder === isOlder ? [row.key] : []));
  return [
    ...suspectGone(own, { ...open, reason: 'left_out' }, keysOf(false), LEFT_OUT),
    ...suspectGone(own, { ...open, reason: 'missing' }, keysOf(true), LEFT_OUT),
  ];
}

/** Shown again by the same walk, after a kill, it counts once. */
function olderState({ suspects, mode, walkStartedAt }: WalkSuspects, record_id: string, hash: string) {
  const before = suspects.get(record_id);
  const isSame = before?.reason === 'older' && before.hash === hash && before.evidence_at < walkStartedAt;
  return { record_id, hash, sweeps: (isSame ? before.sweeps : 0) + (mode === 'full' ? 1 : 0) };
}
