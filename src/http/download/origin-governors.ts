import type { Governor } from '../../queue/governor.ts';

/** More origins than this are not remembered: a governor of an origin that nobody asks is closed then. */
const MOST_IDLE = 64;

interface Entry {
  governor: Promise<Governor>;
  users: number;
}

/** A governor for each origin that files come from, opened with its first request. */
export interface OriginGovernors {
  /** Opened, and kept open, by those who wait in it. */
  of(origin: string): Pick<Governor, 'run'>;
  close(): Promise<void>;
}

/** `open` makes the governor of an origin; it is closed here. */
export function originGovernors(open: (origin: string) => Promise<Governor>): OriginGovernors {
  const entries = new Map<string, Entry>();

  function entryOf(origin: string): Entry {
    const entry = entries.get(origin) ?? opened(origin);
    // Behind all others: the first ones are those that nobody has asked for longest.
    entries.delete(origin);
    entries.set(origin, entry);
    return entry;
  }

  function opened(origin: string): Entry {
    const entry = { governor: open(origin), users: 0 };
    // One that cannot be opened is opened anew by the next who asks.
    entry.governor.catch(() => entries.get(origin) === entry && entries.delete(origin));
    return entry;
  }

  async function closeIdle(): Promise<void> {
    for (const [origin, entry] of entries) {
      if (entries.size <= MOST_IDLE) return;
      if (entry.users > 0) continue;
      entries.delete(origin);
      await (await entry.governor).close();
    }
  }

  async function use<T>(origin: string, work: (governor: Governor) => Promise<T>): Promise<T> {
    const entry = entryOf(origin);
    entry.users += 1;
    try {
      return await work(await entry.governor);
    } finally {
      entry.users -= 1;
      await closeIdle();
    }
  }

  return {
    of: (origin) => ({
      run: (lane, attempt, signal) => use(origin, (governor) => governor.run(lane, attempt, signal)),
    }),
    close: async () => {
      const open = [...entries.values()];
      entries.clear();
      for (const { governor } of open) await (await governor).close();
    },
  };
}
