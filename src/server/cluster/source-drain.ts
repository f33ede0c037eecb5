// Processes the deliveries of one source in a cluster, in which other processes do the same.
import type { Inbox } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { App } from '../app.ts';
import { PausedResources } from '../controls/paused-resources.ts';
import type { Drain } from '../inbox/drain.ts';
import type { WatchedSource } from '../source-supervisor.ts';
import { startDrain } from '../start-drain.ts';
import { queueName, resourceKey } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';
import { queueNewScan } from './scan-item.ts';

interface SourceDrainOptions extends WatchedSource {
  clock: Clock;
  secrets: readonly string[];
  queue: WorkQueue;
  app: App;
  inbox: Inbox;
}

/** The user of a drain: a drain item, for all deliveries; or the sync that owns a resource, for its deliveries. */
export type DrainUser = { all: true } | { resource: string };

/** Interval of queries whether another process wants to sync a resource that this drain keeps owning. */
const YIELD_INTERVAL_MS = 3_000;
const CHECK_INTERVAL_MS = 250;
/** By then, a delivery that was being stored while the last user left is in the inbox. */
const LAST_CHECK_MS = 1_500;

/**
 * The one drain of a source in this process, which runs as long as it has users. For a drain item it takes every
 * delivery it can; for a sync it takes the deliveries for the resource, which no other process can process meanwhile.
 */
export class SourceDrain {
  readonly #options: SourceDrainOptions;
  readonly #name: string;
  readonly #users = new Set<DrainUser>();
  /** Ends the waiting for syncs. */
  readonly #stop = new AbortController();
  /** Ends the fetches in progress, some seconds later. */
  readonly #fetches = new AbortController();
  /** Resources that another process is about to sync. */
  #yielded: ReadonlySet<string> = new Set();
  readonly #drain: Drain | null;
  readonly #yielding: Promise<void>;

  constructor(options: SourceDrainOptions) {
    this.#options = options;
    const { app, queue, source, clock } = options;
    const { signal } = this.#stop;
    const name = queueName(source.warehouse);
    this.#name = name;
    this.#drain = startDrain({
      ...options,
      signal: this.#fetches.signal,
      pauses: new PausedResources(app.warehouse, clock),
      scan: (resource, command) =>
        queueNewScan(queue, { kind: 'walk', source: name, resource, command }, clock, signal),
      isResponsible: (resources) => [...this.#users].some((user) => 'all' in user || resources.includes(user.resource)),
      checkOwner: (resource) => {
        if (!this.#yielded.has(resource)) return;
        const message = `another process is about to sync ${resource}`;
        throw new SyncError('lease_held', message, { recovery: 'stop' });
      },
    });
    // The queue soon retries a sync whose resource this drain owned: until then this drain does not own it again.
    this.#yielding = repeatUntilAborted({ clock, everyMs: YIELD_INTERVAL_MS, signal }, async () => {
      const keys = new Map(source.resources.map((resource) => [resourceKey(name, resource), resource]));
      const isBusy = (this.#drain?.counts().inProgress ?? 0) > 0;
      // If the queue is unreachable, no process can sync either.
      const returned = isBusy ? await queue.returnedKeys('walk', [...keys.keys()]).catch(() => []) : [];
      this.#yielded = new Set([...returned].flatMap((key) => keys.get(key) ?? []));
    });
  }

  get worksForAll(): boolean {
    return [...this.#users].some((user) => 'all' in user);
  }

  addUser(user: DrainUser): void {
    this.#users.add(user);
    this.#drain?.wake();
  }

  /** Returns true if it was the last user. */
  removeUser(user: DrainUser): boolean {
    this.#users.delete(user);
    return this.#users.size === 0;
  }

  wake(): void {
    this.#drain?.wake();
  }

  retry(): void {
    this.#drain?.retry();
  }

  /** Resolves once there has been nothing to do for `ms`; rejects with the signal's reason. */
  async waitUntilIdle(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (let since = clock.monotonic(); clock.monotonic() - since < ms;) {
      await clock.sleep(CHECK_INTERVAL_MS, signal);
      const { inProgress = 0, skipped = 0 } = this.#drain?.counts() ?? {};
      if (inProgress > skipped) since = clock.monotonic();
    }
  }

  async close(): Promise<void> {
    const reason = new SyncError('interrupted', 'the drain is ending', { recovery: 'stop' });
    this.#stop.abort(reason);
    await Promise.all([this.#drain?.stop(), this.#yielding]);
    this.#fetches.abort(reason);
  }

  /** Queues another drain item if a delivery was stored while this drain was ending. */
  async queueMissedDeliveries(signal: AbortSignal): Promise<void> {
    const { clock, inbox, queue } = this.#options;
    await clock.sleep(LAST_CHECK_MS, signal);
    const [first] = await inbox.waiting(0, timestampText(clock.now()), 1);
    if (first !== undefined) await queue.put({ kind: 'drain', source: this.#name });
  }
}
