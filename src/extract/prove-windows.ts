import { SyncError } from '../model/errors.ts';
import { updatedTime } from '../shape/columns/updated-time.ts';
import { recordKey } from '../shape/records/record-key.ts';
import type { Doubt } from './guards/walk-end.ts';
import type { Page } from './page.ts';
import { walk, type WalkOptions } from './walk.ts';
import type { Windows } from './windows.ts';

/** Pages of the narrow window around a record in which it is looked for. */
const MOST_PAGES = 3;

interface Sample {
  key: string;
  at: number;
}

/**
 * Tries the windows with records that the listing shows without any: each must be listed by the window around its time
 * of change. Returns what speaks against it, also a record without such a time. A service that is never asked without a
 * window proves nothing here, which only matters if the windows have shown no record either. Throws what walking throws.
 */
export async function windowDoubts(
  options: WalkOptions,
  windows: Pick<Windows, 'ask' | 'least'>,
  { now, hasRecords }: { now: number; hasRecords: boolean },
): Promise<Doubt[]> {
  const plain = await plainPage(options);
  if (plain === null) return hasRecords ? [] : [empty];
  const samples = samplesOf(plain, options, now);
  const untimed = plain.records.filter(({ value }) => updatedTime(value, options.resource) === null).length;
  const doubts = untimed === 0 ? [] : [untimedRecords(untimed)];
  for (const sample of samples) {
    if (await isListed(options, windows, sample, now)) continue;
    const again = await plainPage(options);
    // It changed meanwhile, or went.
    const isSteady = again !== null && samplesOf(again, options, now, Infinity).some((each) => isSame(each, sample));
    if (isSteady) return [...doubts, unlisted(sample)];
  }
  return doubts;
}

function isSame(a: Sample, b: Sample): boolean {
  return a.key === b.key && a.at === b.at;
}

/** The first page without any window; null if the service refuses that, or has none. */
async function plainPage(options: WalkOptions): Promise<Page | null> {
  try {
    for await (const page of walk(options)) return page;
    return null;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'bad_request') return null;
    throw error;
  }
}

/** The first, a middle and the last record of a page that changed before now; all of them if `most` says so. */
function samplesOf({ records }: Page, { resource }: WalkOptions, now: number, most = 3): Sample[] {
  const timed = records.flatMap(({ value }): Sample[] => {
    const [found, time] = [recordKey(value, resource.id), updatedTime(value, resource)];
    return 'key' in found && time !== null && time.at <= now ? [{ key: found.key, at: time.at }] : [];
  });
  if (timed.length <= most) return timed;
  return [timed.at(0), timed.at(timed.length >> 1), timed.at(-1)].filter((each) => each !== undefined);
}

/** True also if there is too much in the window to tell. */
async function isListed(
  options: WalkOptions,
  { ask, least }: Pick<Windows, 'ask' | 'least'>,
  { key, at }: Sample,
  now: number,
): Promise<boolean> {
  let pages = 0;
  for await (const { records } of walk({ ...options, ...ask({ from: at - least, to: at + least }, now) })) {
    const keys = records.map(({ value }) => recordKey(value, options.resource.id));
    if (keys.some((found) => 'key' in found && found.key === key)) return true;
    if ((pages += 1) === MOST_PAGES) return true;
  }
  return false;
}

const HINT = 'set the places of {since} and {until} in incremental, and its format, as the service reads them';

const empty: Doubt = {
  code: 'unproved',
  message: 'no window lists any record, and the service does not list any without one',
  hint: HINT,
};

function untimedRecords(count: number): Doubt {
  const records = count === 1 ? '1 record has' : `${count} records have`;
  return {
    code: 'unproved',
    message: `on the first page without a window ${records} no time of change, so no window lists such records`,
    hint: 'name another field as `updated`, or several of which one is never null; else walk without incremental.window',
  };
}

function unlisted({ key, at }: Sample): Doubt {
  return {
    code: 'unproved',
    message: `the window around ${new Date(at).toISOString()} does not list the record ${key}, which changed then`,
    hint: HINT,
  };
}
