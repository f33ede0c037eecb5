import type { CompiledQuery, Kysely } from 'kysely';
import type { ReadOrder } from '../../load/difference.ts';
import type { KeyedRecord } from '../../load/key-records.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import { forgetWaiting, readSuspects, suspectOlder } from '../../state/suspects.ts';
import type { OwnTables, SuspectRow, TimestampText } from '../../warehouse/own-tables.ts';

/** What is suspected, and not yet left to a person, of a resource's rows when a walk begins or goes on, and which walk it is. */
export interface WalkNotes {
  suspects: ReadonlyMap<string, SuspectRow>;
  mode: WalkMode;
  walkStartedAt: TimestampText;
}

export async function openWalkNotes(
  own: Kysely<OwnTables>,
  resource: string,
  walk: Pick<WalkNotes, 'mode' | 'walkStartedAt'>,
): Promise<WalkNotes> {
  const suspects = await readSuspects(own, resource, ['open']);
  return { ...walk, suspects: new Map(suspects.map((suspect) => [suspect.record_id, suspect])) };
}

/** How far a walk believes its pages: an older state where an earlier whole walk has shown the same. */
export function readingOf({ suspects, mode, walkStartedAt }: WalkNotes): ReadOrder {
  const shown = [...suspects.values()].filter(
    ({ reason, sweeps, evidence_at }) => reason === 'older' && sweeps > 0 && evidence_at < walkStartedAt,
  );
  const hashes = mode === 'full' ? shown.map(({ record_id, hash }) => [record_id, hash ?? ''] as const) : [];
  return { believesOlder: false, shownBefore: new Map(hashes) };
}

/** What a page of the walk was found to hold. */
export interface Met {
  keys: readonly string[];
  /** Those in a state older than their row, which were not believed. */
  older: readonly KeyedRecord[];
  /** Local epoch milliseconds just before the page was asked for. */
  requestedAt: number;
}

/** Forgets what was suspected of records that are listed, and notes older states; belongs to the page's transaction. */
export function noteStatements(
  own: Kysely<OwnTables>,
  resource: string,
  notes: WalkNotes,
  { keys, older, requestedAt }: Met,
): CompiledQuery[] {
  const { suspects, walkStartedAt } = notes;
  const asked = timestampText(requestedAt);
  const doubted = new Set(older.map(({ key }) => key));
  const met = keys.filter((key) => !doubted.has(key) && (suspects.get(key)?.evidence_at ?? '9') <= asked);
  const states = older.map(({ key, value }) => stateOf(notes, key, canonicalHash(value)));
  return [...forgetWaiting(own, resource, met), ...suspectOlder(own, resource, states, walkStartedAt)];
}

/** Met again by the same walk, after a kill, it counts once. */
function stateOf({ suspects, mode, walkStartedAt }: WalkNotes, record_id: string, hash: string) {
  const before = suspects.get(record_id);
  const isSame = before?.reason === 'older' && before.hash === hash && before.evidence_at < walkStartedAt;
  return { record_id, hash, sweeps: (isSame ? before.sweeps : 0) + (mode === 'full' ? 1 : 0) };
}
