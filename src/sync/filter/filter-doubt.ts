import { z } from 'zod';
import { unlistedKeys, type FilterQuestion } from '../../checks/filter.ts';
import { readItem, type ItemReading } from '../../extract/read-item.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import { updatedTime } from '../../shape/columns/updated-time.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import type { IncrementalProfile } from '../../source/incremental.ts';
import { readCheckpoint, saveCheckpoint } from '../../state/checkpoints.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import type { RunContext } from '../run-progress.ts';
import type { Witness } from '../walk/filter-evidence.ts';
import { liveKeys } from './trusted-plan.ts';

/**
 * The question that a filter failed, the record that speaks against it first. Until the filter answers the same question
 * with its records, every sync scans everything: a wider look-back would list records that were created recently, also
 * where the filter goes by the time of creation.
 */
const doubtSchema = z.object({ filter: z.string(), since: z.string(), keys: z.array(z.string()).min(1) });

/** Records that are fetched individually before the filter is doubted: those that changed together are often deleted together. */
export const MAX_FETCHED = 3;

/** The stored question; null if the filter is trusted, or the profile has another filter by now. */
export function readDoubt({ filter_doubt }: CheckpointRow, incremental: IncrementalProfile): FilterQuestion | null {
  if (filter_doubt === null) return null;
  const parsed = doubtSchema.safeParse(JSON.parse(filter_doubt));
  return parsed.success && parsed.data.filter === hashFilter(incremental) ? parsed.data : null;
}

/** Fields that earlier versions had, without a value: doubts that they stored are found by the same hash. */
const FORMER_FIELDS = { window: null, start: null, until_param: null, most: null, headers: {}, body: {} };

/** The overlap is no part of a question. */
function hashFilter(incremental: IncrementalProfile): string {
  return canonicalHash({ ...incremental, ...FORMER_FIELDS, overlap: 0 });
}

/** Stores the question that the filter failed; null stores that it is trusted. */
export async function storeDoubt(context: RunContext, question: FilterQuestion | null): Promise<void> {
  const { warehouse, owned, profile } = context;
  const { incremental } = profile;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || incremental === null) return;
  const doubt = question && { filter: hashFilter(incremental), since: question.since, keys: question.keys };
  await save(context, { ...stored, filter_doubt: doubt && JSON.stringify(doubt) });
}

/** Asks the stored question again. Null if the filter lists all of its records that still exist; else what is left of it. */
export async function repeatQuestion(
  context: RunContext,
  { since, keys }: FilterQuestion,
): Promise<FilterQuestion | null> {
  const live = await liveKeys(context, keys);
  const [first] = live;
  if (first === undefined) return { since, keys };
  const missing = (await unlisted(context, { since, keys: live })) ?? live;
  // Also a record that has changed meanwhile must be listed.
  const standing = await firstUnexplained(
    context,
    missing.map((key) => ({ key, at: Infinity })),
  );
  if (standing === null && missing.length < live.length) return null;
  const head = standing?.key ?? first;
  return { since, keys: [head, ...live.filter((key) => key !== head)] };
}

/** Keys that the filter does not list, in so many pages at most; null if it cannot be known, or asked so. */
export async function unlisted(
  context: RunContext,
  question: FilterQuestion,
  maxPages?: number,
): Promise<string[] | null> {
  try {
    return await unlistedKeys(context, question, maxPages);
  } catch (error) {
    // A service that cannot be asked so refuses the next scan as well, which says why.
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/**
 * The first of these records that exists and has not changed since its time; `isThere` is false if it cannot be fetched
 * individually.
 */
export async function firstUnexplained(
  context: RunContext,
  missing: readonly Witness[],
): Promise<{ key: string; isThere: boolean } | null> {
  for (const { key, at } of missing.slice(0, MAX_FETCHED)) {
    const reading = await fetchRecord(context, key);
    if (reading === null) return { key, isThere: false };
    if (reading.isThere && changedAt(context, reading) <= at) return { key, isThere: true };
  }
  return null;
}

/** When the record last changed; -Infinity if it does not say so, or is gone. */
export function changedAt({ profile }: RunContext, reading: ItemReading): number {
  return reading.isThere ? (updatedTime(reading.record.value, profile)?.at ?? -Infinity) : -Infinity;
}

/** Null if it cannot be fetched individually. Throws if the run itself cannot go on. */
export async function fetchRecord(context: RunContext, key: string): Promise<ItemReading | null> {
  if (context.profile.item === null) return null;
  try {
    return await readItem(context, key, 'incremental');
  } catch (error) {
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/** False of an error by which the run itself cannot go on. */
function isOfRequest(error: unknown): boolean {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}

/** Commits a checkpoint by itself. */
export async function save({ warehouse, owned }: RunContext, checkpoint: CheckpointRow): Promise<void> {
  await warehouse.apply([saveCheckpoint(warehouse.own, checkpoint)], owned.lease());
}
