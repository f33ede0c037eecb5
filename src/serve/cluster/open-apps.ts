import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { openApp, type App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { SharedResources } from '../../model/shared-resources.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { inboxAddress, openInbox } from '../../warehouse/databases.ts';
import type { SourceWatcher } from '../source-watcher.ts';

/** A source and what this process needs to work on it. */
export interface ClusterSource {
  source: SourceSettings;
  log: Logger;
  watcher: SourceWatcher;
}

export interface OpenApp {
  app: App;
  /** Null if no webhooks are received. */
  inbox: Inbox | null;
}

/** The sources that this process works on just now: of hundreds, only these are open. */
export interface OpenApps {
  /** Runs `work` with a source open. Throws what opening throws, and `SyncError('unknown_source')`. */
  use<T>(source: string, work: (open: OpenApp) => Promise<T>): Promise<T>;
  /** The source if it is open now, else null. */
  peek(source: string): App | null;
  /** Closes a source if it is open; nothing may use it any more. */
  end(source: string): Promise<void>;
  /** Closes what is open. Nothing may be in use any more. */
  close(): Promise<void>;
}

export interface OpenAppsOptions {
  /** By their names in the queue. */
  sources: ReadonlyMap<string, ClusterSource>;
  clock: Clock;
  secrets: string[];
  /** Aborted when the process is to end: then nothing more is opened. */
  stopping: AbortSignal;
}

/** A source stays open for so long after its last use. */
const LINGER_MS = 60_000;
/** In a round of hundreds of sources, each is open for a moment only. */
const MOST_IDLE = 16;
/** Opening takes many queries: some at a time leave the others their connections. */
const OPENING_AT_ONCE = 3;
/** Records that are read again one after the other need not acquire their resource each time. */
const OWNED_LINGER_MS = 1_000;

/** Opens nothing by itself. */
export function createOpenApps(options: OpenAppsOptions): OpenApps {
  const { clock } = options;
  const opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  const apps = new SharedResources<OpenApp & AsyncDisposable>({
    open: (name) => opening.add(() => openOne(options, name)),
    close: async (open) => open[Symbol.asyncDispose](),
    linger: { clock, ms: LINGER_MS },
  });
  let surplus = Promise.resolve();
  return {
    use: async (source, work) => {
      const acquired = await apps.acquire(source);
      try {
        return await work(acquired.value);
      } finally {
        await acquired.release();
        // Not awaited: whoever used this source does not wait for others to be closed.
        surplus = surplus.then(() => apps.closeIdle(MOST_IDLE)).catch(() => undefined);
      }
    },
    peek: (source) => apps.peek(source)?.app ?? null,
    end: (source) => apps.end(source),
    close: async () => {
      await surplus;
      await apps.close();
    },
  };
}

async function openOne(
  { sources, clock, secrets, stopping }: OpenAppsOptions,
  name: string,
): Promise<OpenApp & AsyncDisposable> {
  const known = sources.get(name);
  if (known === undefined) throw unknownSource(name, [...sources.keys()]);
  const { source, log, watcher } = known;
  await using opened = new AsyncDisposableStack();
  stopping.throwIfAborted();
  const attempted: SourceWatcher['attempted'] = (event) => watcher.attempted(event);
  const app = await openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
  opened.defer(() => app.close());
  const inbox = source.webhook === null ? null : await openInbox(inboxAddress(source.warehouse), clock);
  if (inbox !== null) opened.defer(() => inbox.close());
  const stack = opened.move();
  return { app, inbox, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

function unknownSource(name: string, known: readonly string[]): SyncError {
  return new SyncError('unknown_source', `the config of this process has no usable source in the schema "${name}"`, {
    recovery: 'skip',
    hint: `it has ${known.join(', ')}; give all processes on one database the same config`,
  });
}
