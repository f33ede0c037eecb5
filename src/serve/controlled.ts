import type { Clock } from '../model/clock.ts';
import type { SourceActivity } from '../observe/activity.ts';
import type { GovernorProgress } from '../observe/progress.ts';
import type { SourceSettings } from '../settings/settings.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { askElsewhere, newsOf } from './controls/ask-leader.ts';
import type { ControlledSource, WalkNews } from './controls/controlled-source.ts';
import type { Keeper } from './keeper.ts';

interface ControlledParts {
  source: SourceSettings;
  activity: SourceActivity;
  keeper: Keeper;
  clock: Clock;
}

/** A source with its keeper, as the controls see it. */
export function controlledSource({ source, activity, keeper, clock }: ControlledParts): ControlledSource {
  const governor = (): GovernorProgress | null => {
    const figures = keeper.governor();
    if (figures === null) return null;
    const { requests, limited, allowedPerSecond, shareUsed, pausedUntil } = figures;
    const pausedForMs = pausedUntil === null ? 0 : Math.max(0, pausedUntil - clock.now());
    return { requests, limited, allowedPerSecond, shareUsed, pausedForMs };
  };
  return {
    source,
    clock,
    scheduler: () => keeper.scheduler,
    elsewhere: () => (keeper.isLed ? null : askElsewhere(source.warehouse, clock)),
    retry: (resources, now) => keeper.retry(resources, now),
    pausesChanged: () => keeper.pausesChanged(),
    wake: () => keeper.wake(),
    walk: async (resource) => {
      const walk = activity.running(resource);
      if (walk === null) return storedWalk(keeper, resource);
      const { records, pages, requests, total } = walk.progress;
      return { resource, mode: walk.mode, records, pages, requests, total, governor: governor() };
    },
  };
}

/** A walk that another process of the cluster does, as it has been stored. */
async function storedWalk(keeper: Keeper, resource: string): Promise<WalkNews | null> {
  const isAsked = keeper.schedule().some((each) => each.resource === resource && each.running !== null);
  const stored = isAsked ? await keeper.read(({ own }) => readCheckpoint(own, resource)) : null;
  return stored === null ? null : newsOf(resource, stored);
}
