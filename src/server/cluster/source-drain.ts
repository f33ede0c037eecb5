// Processes the webhook deliveries of one source in a cluster. Two processes must not fetch for the same deliveries, so each
// handles only those that its items allow: the drain item of the source, or a sync that owns a resource.
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

/** The deliveries that an item allows: a drain item all of them, a sync those for the resource that it owns. */
export type DrainScope = { all: true } | { resource: string };

/** Interval of queries whether another process waits to sync a resource that this drain owns again and again. */
const YIELD_INTERVAL_MS = 3_000;
const IDLE_CHECK_INTERVAL_MS = 250;
/** A delivery that was being stored while the drain ended is in the inbox after this time. */
const MISSED_CHECK_DELAY_MS = 1_500;

/** The drain of a source in this process. It runs as long as it has a scope, and handles the deliveries in any of them. */
export class SourceDrain {
  readonly #options: SourceDrainOptions;
  readonly #name: string;
  readonly #scopes = new Set<DrainScope>();
  /** Ends the waiting for queued syncs. */
  readonly #stop = new AbortController();
  /** Ends the fetches in progress, after the drain had some seconds to finish them. */
  readonly #fetches = new AbortController();
  /** Resources that another process is about to sync. */
  #yielded: ReadonlySet<string> = new Set();
  readonly #drain: Drain;
  readonly #yieldLoop: Promise<void>;

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
      isResponsible: (resources) =>
        [...this.#scopes].some((scope) => 'all' in scope || resources.includes(scope.resource)),
      checkOwner: (resource) => {
        if (!this.#yielded.has(resource)) return;
        const message = `another process is about to sync ${resource}`;
        throw new SyncError('lease_held', message, { recovery: 'stop' });
      },
    });
    // If this drain owned the resource of a sync, the sync was returned to the queue, which soon tries it again. Until then
    // this drain leaves the resource alone.
    this.#yieldLoop = repeatUntilAborted({ clock, everyMs: YIELD_INTERVAL_MS, signal }, async () => {
      const keys = new Map(source.resources.map((resource) => [resourceKey(name, resource), resource]));
      const isBusy = this.#drain.counts().inProgress > 0;
      // If the queue is unreachable, no process can sync either.
      const returned = isBusy ? await queue.returnedKeys('walk', [...keys.keys()]).catch(() => []) : [];
      this.#yielded = new Set([...returned].flatMap((key) => keys.get(key) ?? []));
    });
  }

  get hasDrainItem(): boolean {
    return [...this.#scopes].some((scope) => 'all' in scope);
  }

  addScope(scope: DrainScope): void {
    this.#scopes.add(scope);
    this.#drain.wake();
  }

  /** Returns true if it was the last scope. */
  removeScope(scope: DrainScope): boolean {
    this.#scopes.delete(scope);
    return this.#scopes.size === 0;
  }

  wake(): void {
    this.#drain.wake();
  }

  retry(): void {
    this.#drain.retry();
  }

  /** Resolves once there has been nothing to do for `ms`; rejects with the signal's reason. */
  async waitUntilIdle(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (let since = clock.monotonic(); clock.monotonic() - since < ms;) {
      await clock.sleep(IDLE_CHECK_INTERVAL_MS, signal);
      const { inProgress, skipped } = this.#drain.counts();
      if (inProgress > skipped) since = clock.monotonic();
    }
  }

  async close(): Promise<void> {
    const reason = new SyncError('interrupted', 'the drain is ending', { recovery: 'stop' });
    this.#stop.abort(reason);
    await Promise.all([this.#drain.stop(), this.#yieldLoop]);
    this.#fetches.abort(reason);
  }

  /** Queues another drain item if a delivery was stored while this drain was ending. */
  async queueMissedDeliveries(signal: AbortSignal): Promise<void> {
    const { clock, inbox, queue } = this.#options;
    await clock.sleep(MISSED_CHECK_DELAY_MS, signal);
    const [first] = await inbox.waiting(0, timestampText(clock.now()), 1);
    if (first !== undefined) await queue.put({ kind: 'drain', source: this.#name });
  }
}
