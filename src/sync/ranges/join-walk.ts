import { KeySet } from '../../extract/guards/key-set.ts';
import { eachKey } from '../../extract/guards/page-keys.ts';
import type { Doubt, WalkEnd } from '../../extract/guards/walk-end.ts';
import { joinRanges, printsOf, type BorderPage, type WalkedRange } from '../../extract/walk-range.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { PAGES_OF_RANGE, forgetRanges } from '../../state/ranges.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { resolveUnseenRejects } from '../../state/rejects.ts';
import { forgetSeen, readSeenPages } from '../../state/seen.ts';
import type { CheckpointRow, RangeRow } from '../../warehouse/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { momentOf } from '../../checks/since.ts';
import { proveWalk, type WalkProof } from '../prove-walk.ts';
import type { RunContext } from '../run-progress.ts';
import { isSweepable } from '../walk/seen-statements.ts';
import { progressOf, type RangeProgress } from './range-progress.ts';

/** A walk in ranges that came to its end, and what that end proves. */
export interface JoinedWalk {
  end: WalkEnd;
  proof: WalkProof;
  /** True if it may stand for a whole walk. */
  isProved: boolean;
  /** The ranges that have to be walked again to find out. */
  again: readonly number[];
  ranges: number;
  rows: readonly RangeRow[];
}

/** Pages of a range that a neighbour may have a record of. */
const LAST_PAGES = 3;

/** Reads what the ranges have met, and concludes. */
export async function readJoined(context: RunContext, rows: readonly RangeRow[]): Promise<JoinedWalk> {
  const { warehouse, owned, profile } = context;
  const all = new KeySet();
  const keys = new Map<number, Uint8Array[]>();
  const firsts = new Map<number, Uint8Array>();
  let unkeyed = 0;
  for await (const page of readSeenPages(warehouse.own, owned.resource, rows[0] ?? { walk_started_at: '' })) {
    eachKey(page.ids, (high, low) => all.add(high, low));
    unkeyed += page.unkeyed;
    const range = Math.floor(page.page / PAGES_OF_RANGE);
    if (!firsts.has(range)) firsts.set(range, page.ids);
    keys.set(range, [...(keys.get(range) ?? []).slice(1 - LAST_PAGES), page.ids]);
  }
  const walked = rows.map((row) => walkedRange(progressOf(row), firsts.get(row.range), keys.get(row.range) ?? []));
  const met = all.size + unkeyed;
  const { again, doubts } = joinRanges(walked, met);
  const end = endOf(walked, { met, doubts, all });
  const proof = proveWalk(end, profile, { former: null, behind: null });
  const isProved = proof.isProved && !doubts.some(({ code }) => code === 'slipped');
  return { end, proof, isProved, again: again.map((index) => rows[index]?.range ?? 0), ranges: rows.length, rows };
}

function walkedRange(progress: RangeProgress, first: Uint8Array | undefined, last: readonly Uint8Array[]): WalkedRange {
  const { firstTotal, lastTotal, isThrough, doubts, checkpoint } = progress;
  const pages = last.map((keys): BorderPage => ({ keys, total: lastTotal }));
  return {
    first: first === undefined ? null : { keys: first, total: firstTotal },
    last: pages,
    isThrough,
    doubts,
    leastTotal: checkpoint.walk_total,
  };
}

function endOf(
  walked: readonly WalkedRange[],
  { met, doubts, all }: { met: number; doubts: readonly Doubt[]; all: KeySet },
): WalkEnd {
  return {
    proof: 'total',
    records: met,
    doubts,
    prints: printsOf(walked),
    sure: null,
    met: (key) => {
      let found = false;
      eachKey(key, (high, low) => (found = all.has(high, low)));
      return found;
    },
    pageSize: null,
    settleMs: doubts.some(({ code }) => code === 'cached') ? null : 0,
  };
}

/** Ends the walk: its checkpoint, what is swept after it, and its ranges, as one. Returns the checkpoint. */
export async function finishJoined(
  context: RunContext,
  planned: CheckpointRow,
  { end, proof, rows }: JoinedWalk,
): Promise<CheckpointRow> {
  const { warehouse, owned, clock, profile } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const ranges = rows.map(progressOf);
  const zone = updatedZone(profile);
  const walked = mergedCheckpoint(planned, ranges, { records: end.records ?? 0, zone });
  const dates = ranges.flatMap(({ serverDate }) => serverDate ?? []);
  const serverDate = dates.length === 0 ? null : Math.max(...dates);
  const passed = { next: null, records: 0, serverDate, updated: [], isProved: proof.isProved, zone };
  const after = checkpointAfter(walked, passed, clock.now());
  const isSwept = proof.maySweep && isSweepable(planned) && end.records !== 0;
  const begun = rows[0]?.walk_started_at ?? '';
  await warehouse.apply(
    [
      saveCheckpoint(own, after),
      ...(isSwept ? [] : [forgetSeen(own, resource)]),
      ...(proof.isProved && after.last_success_at !== null
        ? [resolveUnseenRejects(own, resource, begun, after.last_success_at)]
        : []),
      ...forgetRanges(own, resource),
    ],
    owned.lease(),
  );
  return after;
}

/** The checkpoint of a walk that has read all that its ranges have. */
function mergedCheckpoint(
  planned: CheckpointRow,
  ranges: readonly RangeProgress[],
  { records, zone }: { records: number; zone: ReturnType<typeof updatedZone> },
): CheckpointRow {
  const merged: CheckpointRow = { ...planned, walk_records: records, ranges_given_up_at: null };
  for (const { checkpoint } of ranges) {
    const { walk_high_water: high, walk_high_key, walk_clock, walk_started_at, walk_pages, kept_size } = checkpoint;
    const isLater = high !== null && timeOf(high, zone) > timeOf(merged.walk_high_water, zone);
    if (isLater) Object.assign(merged, { walk_high_water: high, walk_high_key });
    merged.walk_clock = earlierOf(merged.walk_clock, walk_clock);
    merged.walk_pages += walk_pages;
    Object.assign(merged, { walk_started_at, kept_size });
  }
  return merged;
}

function timeOf(text: string | null, zone: ReturnType<typeof updatedZone>): number {
  return text === null ? -Infinity : momentOf(text, zone);
}

function earlierOf(a: string | null, b: string | null): string | null {
  return a === null || b === null ? (a ?? b) : a < b ? a : b;
}
