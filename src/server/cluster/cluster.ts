// Lets several processes share the work on Postgres databases. Example: two processes of `serve` have the same sources; each
// source is led by one of them, which queues the due syncs, and both take syncs from the queue. `Cluster` is created once
// per process.
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse, sharedDatabase } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { waitAtMost } from '../../model/waiting.ts';
import { type ReceivedInbox, SourceSupervisor, type SourceWork, type WatchedSource } from '../source-supervisor.ts';
import { queueName } from '../work-items/work-items.ts';
import { type ClusterOptions, ClusterWork } from './cluster-work.ts';
import { queueNewScan, queueScan, successTime } from './scan-item.ts';

const READY_TIMEOUT_MS = 5_000;
const PROBE_TIMEOUT_MS = 3_000;

/** True if several processes may work on the source. */
export function isShared({ warehouse }: { warehouse: string }): boolean {
  return sharedDatabase(warehouse) !== null;
}

/** Takes work of its sources from the queues as soon as it is created. */
export class Cluster {
  readonly #options: ClusterOptions;
  /** The shared work by database: several sources may be in one. */
  readonly #works = new Map<string, ClusterWork>();

  constructor(options: ClusterOptions, sources: readonly WatchedSource[]) {
    this.#options = options;
    for (const watched of sources) {
      const id = databaseId(watched.source);
      const work = this.#works.get(id) ?? new ClusterWork({ ...options, address: watched.source.warehouse });
      this.#works.set(id, work);
      work.addSource(watched);
    }
  }

  /** Resolves once items can be queued, or after some seconds, so that an unreachable server delays no start. */
  async ready(): Promise<void> {
    const opened = Array.from(this.#works.values(), ({ queue }) => queue.opened);
    await waitAtMost(this.#options.clock, READY_TIMEOUT_MS, Promise.all(opened));
  }

  /** True if each database answers within some seconds. */
  async reachable(): Promise<boolean> {
    const probes = Promise.all(Array.from(this.#works.values(), ({ queue }) => queue.probe()));
    return (await waitAtMost(this.#options.clock, PROBE_TIMEOUT_MS, probes).catch(() => null)) !== null;
  }

  /** Keeps a source fresh: queues its due work while this process leads it. */
  supervise(watched: WatchedSource, inbox: ReceivedInbox | null): SourceSupervisor {
    const { source } = watched;
    const { clock } = this.#options;
    const shared = this.#works.get(databaseId(source));
    if (shared === undefined) throw new Error(`${source.name} is no source of the cluster`);
    const supervisor = new SourceSupervisor({ ...watched, clock, work: queuedWork(source, clock, shared, inbox) });
    shared.addSupervisor(queueName(source.warehouse), supervisor);
    return supervisor;
  }

  /** Returns work to the queue and gives up leadership. Must be called in parallel with `stop` of the supervisors. */
  async stop(): Promise<void> {
    await Promise.all(Array.from(this.#works.values(), (work) => work.stop()));
  }
}

/** Sources share a database if their addresses differ only in the schema. */
function databaseId({ warehouse }: SourceSettings): string {
  return sharedDatabase(warehouse)?.id ?? '';
}

/** Creates the functions by which a supervisor syncs its source: they queue the work, which any process may do. */
function queuedWork(
  source: SourceSettings,
  clock: Clock,
  shared: ClusterWork,
  inbox: ReceivedInbox | null,
): SourceWork {
  const { queue } = shared;
  const name = queueName(source.warehouse);
  return {
    maintenanceIntervalMs: 20_000,
    rateLimiter: () => shared.peek(name)?.rateLimiter.metrics() ?? null,
    wake: () => shared.wake(name),
    retry: (now) => shared.retry(name, now),
    open: async (opened, stopping) => {
      const warehouse = await shared.opening.add(() => {
        stopping.throwIfAborted();
        return openWarehouse(source.warehouse, clock);
      });
      opened.defer(() => warehouse.close());
      return {
        warehouse,
        use: (work) => shared.use(name, work),
        scan: (resource, command, signal, cause) => {
          const item = { kind: 'walk', source: name, resource, command } as const;
          if (cause.is === 'requested') return queueNewScan(queue, { ...item, isAsked: true }, clock, signal);
          return queueScan(queue, { ...item, seen: successTime(command, cause.stored) }, signal);
        },
        startDrain: () => null,
        // A delivery that is due to be retried waits without an item.
        maintain: async () => {
          const [first] = (await inbox?.waiting(0, timestampText(clock.now()), 1)) ?? [];
          if (first !== undefined) await queue.put({ kind: 'drain', source: name });
        },
      };
    },
  };
}
