import { systemClock } from '../../../src/observe/system-clock.ts';
import { createGovernor, type Governor } from '../../../src/queue/governor.ts';
import type { Profile } from '../../../src/source/profile.ts';

/** One that lets a test ask as fast as its service answers. */
export function fastGovernor({ rate_limit: dialect }: Pick<Profile, 'rate_limit'>): Governor {
  return createGovernor({
    clock: systemClock,
    dialect,
    requestsPerSecond: 1_000,
    share: 1,
    concurrency: 4,
    maxWaitMs: 60_000,
  });
}
