import type { Inbox } from '../../warehouse/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { untilAborted } from '../../model/waiting.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { releasedResources } from '../../state/suspects.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { SourceWork } from '../keeper.ts';
import { queueName } from '../work-items/work-items.ts';
import { askWalk } from './ask-walk.ts';
import type { ClusterWork } from './cluster-work.ts';
import { successOf } from './do-walk.ts';

interface QueuedWorkOptions {
  source: SourceSettings;
  clock: Clock;
  /** The work of all sources on the same database. */
  shared: ClusterWork;
  /** Opens warehouses, some at a time: hundreds of sources may start together. */
  opening: { add<T>(work: () => Promise<T>): Promise<T> };
  /** Null if no webhooks are received. */
  inbox: Pick<Inbox, 'waiting'> | null;
}

/** The work on a source is queued by the process that leads it, and done by any process of the cluster. */
export function queuedWork({ source, clock, shared, opening, inbox }: QueuedWorkOptions): SourceWork {
  const { queue } = shared;
  const name = queueName(source.warehouse);
  /** Queues what waits without an item, such as deliveries that are due to be tried again. */
  const queueWaiting = async ({ own }: Warehouse): Promise<void> => {
    for (const resource of await releasedResources(own)) await queue.put({ kind: 'settle', source: name, resource });
    const [first] = (await inbox?.waiting(0, timestampText(clock.now()), 1)) ?? [];
    if (first !== undefined) await queue.put({ kind: 'drain', source: name });
  };
  return {
    upkeepMs: 20_000,
    // Hundreds of sources need no common beat: each looks when something is due, and now and then.
    ticks: () => ({ stop: () => undefined }),
    governor: () => shared.apps.peek(name)?.governor.figures() ?? null,
    wake: () => shared.wake(name),
    open: async (opened, stopping) => {
      const warehouse = await opening.add(() => {
        stopping.throwIfAborted();
        return openWarehouse(source.warehouse, clock);
      });
      opened.defer(() => warehouse.close());
      return {
        warehouse,
        walk: (resource, command, signal, stored) => {
          const seen = successOf(command, stored);
          return askWalk(queue, { kind: 'walk', source: name, resource, command, seen }, signal);
        },
        startDrain: () => null,
        upkeep: [() => queueWaiting(warehouse)],
        untilReopening: untilAborted,
      };
    },
  };
}
