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
import { listingDelayMs } from './detect-deletes.ts';

/** The part of a candidate that a page may change. */
type Candidate = Pick<SuspectRow, 'record_id' | 'reason' | 'hash' | 'sweeps' | 'evidence_at'>;

/** The delete candidates of a resource when a scan begins or resumes. */
export interface ScanCandidates {
  /** Updated by the pages of the scan. */
  candidates: Map<string, Candidate>;
  mode: WalkMode;
  walkStartedAt: TimestampText;
  /** The same delay of the listing may explain what it showed since this time and what this scan shows. */
  mayLagSince: TimestampText;
}

export async function readCandidates(
  context: ResourceContext,
  mode: WalkMode,
  walkStartedAt: TimestampText,
): Promise<ScanCandidates> {
  const { warehouse, owned } = context;
  const all = await readSuspects(warehouse.own, owned.resource, ['open', 'held', 'released']);
  // A record that is live again needs no decision of an operator.
  const known = all.filter(({ state, reason }) => state === 'open' || reason === 'stated' || reason === 'left_out');
  const mayLagSince = timestampText(timestampMs(walkStartedAt) - listingDelayMs(context));
  return { mode, walkStartedAt, mayLagSince, candidates: new Map(known.map((each) => [each.record_id, each])) };
}

/**
 * A scan accepts an older state of a record only if an earlier full scan has shown the same state, so long before that
 * one delay of the listing does not explain both.
 */
export function olderPolicy({ candidates, mode, mayLagSince }: ScanCandidates): OlderPolicy {
  const shown = [...candidates].filter(
    ([, { reason, sweeps, evidence_at }]) => reason === 'older' && sweeps > 0 && evidence_at < mayLagSince,
  );
  const hashes = mode === 'full' ? shown.map(([key, { hash }]) => [key, hash ?? ''] as const) : [];
  return { acceptsOlder: false, seenBefore: new Map(hashes) };
}

/**
 * The statements of a page's transaction that forget candidates which the page lists, and note older states, tombstones,
 * and rows whose records the page shows to be none of the resource's. `requestedAt` in local epoch milliseconds.
 */
export function candidateStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  scan: ScanCandidates,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const { candidates, mode, walkStartedAt } = scan;
  const asked = timestampText(requestedAt);
  const listed =
    candidates.size === 0 ? [] : listedKeys(facts).filter((key) => (candidates.get(key)?.evidence_at ?? '9') <= asked);
  const states = facts.older.map(({ key, value }) => {
    const hash = canonicalHash(value);
    const before = candidates.get(key);
    // The same scan counts once, also if it shows the state again after a kill.
    const isSame = before?.reason === 'older' && before.hash === hash && before.evidence_at < walkStartedAt;
    return { record_id: key, hash, sweeps: (isSame ? before.sweeps : 0) + (mode === 'full' ? 1 : 0) };
  });
  // A later page of this scan may show that they are records of the resource after all.
  const noted = { hash: null, sweeps: LEFT_OUT_SCANS, evidence_at: asked } as const;
  for (const { key } of facts.stated) candidates.set(key, { ...noted, record_id: key, reason: 'stated', sweeps: 0 });
  for (const { key } of facts.lost) candidates.set(key, { ...noted, record_id: key, reason: 'left_out' });
  return [
    ...forgetSuspects(own, resource, listed, 'waiting'),
    ...suspectOlder(own, resource, states, walkStartedAt),
    ...namedCandidates(own, resource, facts, asked),
  ];
}

/** The same for an answer of a feed, which knows nothing of complete scans. */
export function fedStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const asked = timestampText(requestedAt);
  const states = facts.older.map(({ key, value }) => ({ record_id: key, hash: canonicalHash(value), sweeps: 0 }));
  return [
    ...forgetSuspects(own, resource, listedKeys(facts), 'fed'),
    ...suspectOlder(own, resource, states, asked),
    ...namedCandidates(own, resource, facts, asked),
  ];
}

/** The keys whose records are listed as live, in their present state. */
function listedKeys({ keys, older, stated }: PageFacts): string[] {
  const others = new Set([...older, ...stated].map(({ key }) => key));
  return keys.filter((key) => !others.has(key));
}

/** A record that the filter leaves out verifies as much as two complete scans that do not list it. */
const LEFT_OUT_SCANS = 2;

/** An older state may come from a replica that lags behind: that record is fetched individually if possible. */
function namedCandidates(
  own: LoadContext['warehouse']['own'],
  resource: string,
  { stated, lost }: PageFacts,
  asked: TimestampText,
): CompiledQuery[] {
  const open = { resource, state: 'open', evidence_at: asked, detail: null } as const;
  const keysOf = (isOlder: boolean): string[] => lost.flatMap((row) => (row.isOlder === isOlder ? [row.key] : []));
  return [
    ...suspectStated(own, { resource, reason: 'stated', evidence_at: asked }, stated),
    ...suspectGone(own, { ...open, reason: 'left_out' }, keysOf(false), LEFT_OUT_SCANS),
    ...suspectGone(own, { ...open, reason: 'missing' }, keysOf(true), LEFT_OUT_SCANS),
  ];
}
