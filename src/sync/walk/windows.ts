import type { WalkOptions } from '../../extract/walk.ts';
import type { Windows } from '../../extract/windows.ts';
import type { Doubt } from '../../extract/guards/walk-end.ts';
import type { LoadContext } from '../../load/load-context.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { boundsTogether } from '../../source/filter-places.ts';
import type { IncrementalProfile } from '../../source/incremental.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { momentOf, stepOf, writtenMoment } from '../../checks/since.ts';
import { countUntimedRows } from '../filter/trusted-plan.ts';
import { filterSince } from '../../checks/listing-walk.ts';

/**
 * The windows of a walk from this checkpoint; null if the profile asks for the listing at once. A full walk begins where
 * Unix time does, an incremental one where the filter would.
 */
export async function windowsOf(
  context: LoadContext,
  { walk_since }: Pick<CheckpointRow, 'walk_since'>,
): Promise<Windows | null> {
  const { profile, clock } = context;
  const { incremental } = profile;
  if (incremental === null || incremental.window === null) return null;
  const { window: span, start, most } = incremental;
  const from = walk_since === null ? 0 : momentOf(walk_since, updatedZone(profile));
  const now = (): number => clock.now();
  const untimed = await countUntimedRows(context);
  const doubts = untimed === 0 ? [] : [untimedRows(untimed)];
  const common = { start: Date.parse(start ?? '1970-01-01'), span, most, now, doubts };
  return { ...common, from: Math.max(0, from), isWhole: walk_since === null, ...requestsOf(profile, incremental) };
}

/**
 * Windows overlap by a step of the written form on either side, so that it does not matter whether a service counts
 * their ends in.
 */
function requestsOf(profile: ResourceProfile, incremental: IncrementalProfile): Pick<Windows, 'least' | 'ask'> {
  const zone = updatedZone(profile);
  const isBounded = boundsTogether(profile);
  const step = Math.max(1_000, stepOf(incremental, ''));
  const written = (at: number): string => writtenMoment(at, incremental, '', zone);
  return {
    least: 2 * step,
    ask: ({ from, to }, now): Pick<WalkOptions, 'extraQuery' | 'values'> => {
      const since = written(Math.max(0, from - step));
      if (to !== null) return filterSince(incremental, since, written(to + step));
      // The last window is left open where it can be: what is dated in the future is listed as well.
      const until = isBounded ? written(now + incremental.overlap + step) : null;
      return filterSince(incremental, since, until);
    },
  };
}

/** They came by an event, or a service that lists more than it is asked for. */
function untimedRows(count: number): Doubt {
  const rows = count === 1 ? '1 record here has' : `${count} records here have`;
  return {
    code: 'unproved',
    message: `${rows} no time of change, and no window lists such records`,
    hint: 'name another field as `updated`, or several of which one is never null; else walk without incremental.window',
  };
}
