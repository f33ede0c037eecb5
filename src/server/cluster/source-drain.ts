import type { Inbox } from '../../database/inbox.ts';
import { readPauses } from '../../database/state/server-state.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { App } from '../app.ts';
import { KnownPauses } from '../controls/known-pauses.ts';
import type { Drain, DrainOptions } from '../inbox/drain.ts';
import { type DrainParts, refetchBy, startDrain } from '../start-drain.ts';
import { queueName, resourceKey } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';
import { walkNow } from './walk-item.ts';

export interface SourceDrainOptions extends DrainParts {
  queue: WorkQueue;
  app: App;
  inbox: Inbox;
}

/** Who uses a drain: a drain item, for all deliveries; or the walk that owns a resource, for the deliveries of that one. */
export type DrainUser = { all: true } | { resource: string };

/** The inbox is polled, because deliveries that another process receives wake nobody here. */
const POLL_MS = 1_000;
/** How often the queue is asked whether another process wants to walk a resource that this drain keeps owning. */
const YIELD_MS = 3_000;
const LOOK_MS = 250;
/** By then, a delivery that was being stored while the last user left is in the inbox. */
const LAST_LOOK_MS = 1_500;

/**
 * The one drain of a source in this process, which runs as long as it has users. For a drain item it takes every delivery
 * it can; for a walk it takes the deliveries that concern the walked resource, which no other process can work on
 * meanwhile.
 */
export class SourceDrain {
  readonly #options: SourceDrainOptions;
  /** The source's name in the queue. */
  readonly #name: string;
  readonly #users = new Set<DrainUser>();
  /** Ends the waiting for walks. */
  readonly #stop = new AbortController();
  /** Ends the readings under way, which are given some seconds more. */
  readonly #cut = new AbortController();
  /** Resources that another process is about to walk. */
  #yielded: ReadonlySet<string> = new Set();
  readonly #drain: Drain | null;
  readonly #yielding: Promise<void>;

  constructor(options: SourceDrainOptions) {
    this.#options = options;
    const { app, queue, source, inbox, clock } = options;
    const { signal } = this.#stop;
    const read = refetchBy(app, this.#cut.signal);
    const refetch: DrainOptions['refetch'] = async (resource, ...asked) => {
      if (this.#yielded.has(resource)) {
        throw new SyncError('lease_held', `${resource} is about to be walked by another process`, { recovery: 'stop' });
      }
      return read(resource, ...asked);
    };
    this.#name = queueName(source.warehouse);
    const walk: DrainOptions['walk'] = (resource, command) =>
      walkNow(queue, { source: this.#name, resource, command }, clock, signal);
    const concerns = (resources: readonly string[]): boolean => this.#concerns(resources);
    const persist = (): Promise<void> => app.warehouse.persist();
    const pauses = new KnownPauses(() => readPauses(app.warehouse.own), clock);
    this.#drain = startDrain(options, inbox, { walk, refetch, concerns, pollMs: POLL_MS, persist, pauses });
    // A walk that found its resource owned comes back soon: until then nothing is begun here that would own it again.
    this.#yielding = repeatUntilAborted({ clock, everyMs: YIELD_MS, signal }, async () => {
      // If the queue cannot be asked, nobody can walk either.
      this.#yielded = await this.#wanted().catch(() => new Set<string>());
    });
  }

  enter(user: DrainUser): void {
    this.#users.add(user);
    this.#drain?.wake();
  }

  /** Returns true if it was the last user. */
  leave(user: DrainUser): boolean {
    this.#users.delete(user);
    return this.#users.size === 0;
  }

  wake(): void {
    this.#drain?.wake();
  }

  retry(): void {
    this.#drain?.retry();
  }

  get worksForAll(): boolean {
    return [...this.#users].some((user) => 'all' in user);
  }

  /** Resolves once there has been nothing to do for `ms`; rejects with the signal's reason. */
  async quiet(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (let since = clock.monotonic(); clock.monotonic() - since < ms;) {
      await clock.sleep(LOOK_MS, signal);
      const { inProgress = 0, left = 0 } = this.#drain?.figures() ?? {};
      if (inProgress > left) since = clock.monotonic();
    }
  }

  async close(): Promise<void> {
    const reason = new SyncError('interrupted', 'the drain is ending', { recovery: 'stop' });
    this.#stop.abort(reason);
    await Promise.all([this.#drain?.stop(), this.#yielding]);
    this.#cut.abort(reason);
  }

  /** Queues another drain item if a delivery was stored at the very moment in which this drain ended. */
  async lookAfter(signal: AbortSignal): Promise<void> {
    const { clock, inbox, queue } = this.#options;
    await clock.sleep(LAST_LOOK_MS, signal);
    const [first] = await inbox.waiting(0, timestampText(clock.now()), 1);
    if (first !== undefined) await queue.put({ kind: 'drain', source: this.#name });
  }

  #concerns(resources: readonly string[]): boolean {
    return [...this.#users].some((user) => 'all' in user || resources.includes(user.resource));
  }

  async #wanted(): Promise<ReadonlySet<string>> {
    const { queue, source } = this.#options;
    const { inProgress = 0 } = this.#drain?.figures() ?? {};
    if (inProgress === 0) return new Set();
    const keys = source.resources.map((resource) => resourceKey(this.#name, resource));
    const back = await queue.comingBack('walk', keys);
    return new Set(source.resources.filter((resource) => back.has(resourceKey(this.#name, resource))));
  }
}
