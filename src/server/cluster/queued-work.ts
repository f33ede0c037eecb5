import { openWarehouse } from '../../database/databases.ts';
import type { Inbox } from '../../database/inbox.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { readPauses } from '../../database/state/server-state.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { keepFiles } from '../keep-files.ts';
import type { SourceWork } from '../keeper.ts';
import { deleteAsked, resourcesToDelete } from '../local-work.ts';
import { queueName } from '../work-items/work-items.ts';
import type { ClusterSource, ClusterWork } from './cluster-work.ts';
import { askWalk, newWalk, successOf } from './walk-item.ts';

interface QueuedWorkOptions extends ClusterSource {
  clock: Clock;
  /** The work of all sources on the same database. */
  shared: ClusterWork;
  /** Null if no webhooks are received. */
  inbox: Pick<Inbox, 'waiting'> | null;
}

/** The work on a source is queued by the process that leads it, and done by any process of the cluster. */
export function queuedWork({ source, log, watcher, clock, shared, inbox }: QueuedWorkOptions): SourceWork {
  const { queue } = shared;
  const name = queueName(source.warehouse);
  /** Queues deliveries that wait without an item, such as those that are due to be tried again. */
  const queueWaiting = async (): Promise<void> => {
    const [first] = (await inbox?.waiting(0, timestampText(clock.now()), 1)) ?? [];
    if (first !== undefined) await queue.put({ kind: 'drain', source: name });
  };
  return {
    upkeepMs: 20_000,
    // Hundreds of sources must not read their state at the same moment.
    hasTick: false,
    governor: () => shared.peek(name)?.governor.figures() ?? null,
    wake: () => shared.wake(name),
    retry: (now) => shared.retry(name, now),
    pausesChanged: async () => {
      shared.lookAgain(name);
      await queue.put({ kind: 'drain', source: name });
    },
    open: async (opened, stopping) => {
      const warehouse = await shared.opening.add(() => {
        stopping.throwIfAborted();
        return openWarehouse(source.warehouse, clock);
      });
      opened.defer(() => warehouse.close());
      const files = keepFiles({
        source,
        clock,
        log,
        watcher,
        read: (work) => work(warehouse),
        use: (work) => shared.use(name, work),
      });
      return {
        read: (work) => work(warehouse),
        checkpoints: (resource) => readCheckpoint(warehouse.own, resource),
        isPaused: async (resource) => (await readPauses(warehouse.own)).has(resource),
        walk: (resource, command, signal, cause) => {
          const item = { kind: 'walk', source: name, resource, command } as const;
          if (cause.is === 'asked') return newWalk(queue, item, clock, signal);
          return askWalk(queue, { ...item, seen: successOf(command, cause.stored) }, signal);
        },
        startDrain: () => null,
        upkeep: [
          queueWaiting,
          async (signal) => {
            const resources = await resourcesToDelete(warehouse);
            if (resources.size > 0) await shared.use(name, (app) => deleteAsked(app, resources, signal));
          },
          files,
        ],
      };
    },
  };
}
