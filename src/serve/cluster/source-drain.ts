import type { App } from '../../app.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Drain, DrainOptions } from '../../trigger/drain/options.ts';
import { queueName, resourceKey } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { refetchBy, startDrain, type DrainParts } from '../start-drain.ts';
import { walkNow } from './ask-walk.ts';

export interface SourceDrainOptions extends DrainParts {
  queue: WorkQueue;
  app: App;
  inbox: Inbox;
}

/** Whom a drain works for: for everybody, or for whoever walks one resource and must not be disturbed there. */
export type DrainUser = { all: true } | { resource: string };

/** Where nobody wakes it: another process has received what it is to work on. */
const POLL_MS = 1_000;
/** How often it is asked whether somebody wants to walk what this drain keeps for itself. */
const YIELD_MS = 3_000;
const LOOK_MS = 250;
/** A delivery that was being stored while the last user left is there by then. */
const LAST_LOOK_MS = 1_500;

/**
 * The one drain of a source in this process, as long as it has a user. With a user for all it takes what it can; with
 * users that walk it takes the deliveries of their resources, which no other process can work on meanwhile, and such as
 * are about others beside, so that none is left for ever.
 */
export class SourceDrain {
  readonly #options: SourceDrainOptions;
  /** In the queue. */
  readonly #name: string;
  readonly #users = new Set<DrainUser>();
  /** For the walks that it waits for; and for the readings in hand, which are given some seconds more. */
  readonly #stop = new AbortController();
  readonly #cut = new AbortController();
  /** Resources that another process waits for. */
  #yielded: ReadonlySet<string> = new Set();
  readonly #drain: Drain | null;
  readonly #yielding: Promise<void>;

  constructor(options: SourceDrainOptions) {
    this.#options = options;
    const { app, queue, source, inbox, clock } = options;
    const { signal } = this.#stop;
    const read = refetchBy(app, this.#cut.signal);
    const refetch: DrainOptions['refetch'] = async (resource, ...asked) => {
      if (this.#yielded.has(resource)) throw madeWay(resource);
      return read(resource, ...asked);
    };
    this.#name = queueName(source.warehouse);
    const walk: DrainOptions['walk'] = (resource, command) =>
      walkNow(queue, { source: this.#name, resource, command }, clock, signal);
    const concerns = (resources: readonly string[]): boolean => this.#concerns(resources);
    const persist = (): Promise<void> => app.warehouse.persist();
    this.#drain = startDrain(options, inbox, { walk, refetch, concerns, pollMs: POLL_MS, persist });
    this.#yielding = this.#keepYielding();
  }

  enter(user: DrainUser): void {
    this.#users.add(user);
    this.#drain?.wake();
  }

  /** True where it was the last one. */
  leave(user: DrainUser): boolean {
    this.#users.delete(user);
    return this.#users.size === 0;
  }

  wake(): void {
    this.#drain?.wake();
  }

  get worksForAll(): boolean {
    return [...this.#users].some((user) => 'all' in user);
  }

  /** Resolves when there has been nothing to do for so long; rejects with the signal's reason. */
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

  /** Asks for a drain once more where something has come in the very moment in which this one ended. */
  async lookAfter(signal: AbortSignal): Promise<void> {
    const { clock, inbox, queue } = this.#options;
    await clock.sleep(LAST_LOOK_MS, signal);
    const [first] = await inbox.waiting(0, timestampText(clock.now()), 1);
    if (first !== undefined) await queue.put({ kind: 'drain', source: this.#name });
  }

  #concerns(resources: readonly string[]): boolean {
    return [...this.#users].some((user) => 'all' in user || resources.includes(user.resource));
  }

  /** A walk that found its resource held comes again soon: until then nothing more is begun here that holds it. */
  async #keepYielding(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      // Where the queue cannot be asked, nobody can walk either.
      this.#yielded = await this.#wanted().catch(() => new Set<string>());
      await clock.sleep(YIELD_MS, signal).catch(() => undefined);
    }
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

function madeWay(resource: string): SyncError {
  return new SyncError('lease_held', `${resource} is about to be walked by another process`, { recovery: 'stop' });
}
