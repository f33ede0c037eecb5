import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import { NAMED } from '../../warehouse/name-state.ts';
import type { InboxOptions } from '../../warehouse/database.ts';
import { openInbox } from '../../warehouse/databases.ts';

/** An inbox that may not be there yet, as the receiver and its drain use it. */
export interface LazyInbox extends Pick<
  Inbox,
  'waiting' | 'write' | 'purge' | 'figures' | 'list' | 'nameState' | 'close'
> {
  /** Why it could not be opened so far; null if it is open. */
  readonly problem: unknown;
  /** Opens it now, or finds out why it cannot be. Does not throw. */
  open(): Promise<void>;
  /** Closes the file if it is open; the next call opens it anew, at once. */
  closeFile(): Promise<void>;
}

/** Between two attempts, each made by a call: a disk that is not mounted yet, or a file that is put back. */
const REOPEN_MS = 5_000;

/** An inbox that opens with its first call. While it cannot be opened, all calls throw the reason. */
export function lazyInbox(address: string, clock: Clock, options?: InboxOptions): LazyInbox {
  let open: Inbox | null = null;
  let problem: unknown = null;
  let isClosed = false;
  let notBefore = -Infinity;
  let opening: Promise<void> | null = null;

  async function attempt(): Promise<void> {
    try {
      open = await openInbox(address, clock, options);
      problem = null;
    } catch (error) {
      problem = error;
      notBefore = clock.monotonic() + REOPEN_MS;
    }
    opening = null;
  }

  async function opened(): Promise<Inbox> {
    if (open === null && !isClosed && clock.monotonic() >= notBefore) await (opening ??= attempt());
    if (open !== null) return open;
    if (problem instanceof SyncError) throw problem;
    throw new SyncError('inbox_closed', messageOf(problem ?? 'it is closed'), { recovery: 'stop', cause: problem });
  }

  async function closeFile(): Promise<void> {
    await opening;
    const was = open;
    [open, notBefore] = [null, -Infinity];
    await was?.close();
  }

  return {
    open: async () => void (await opened().catch(() => undefined)),
    get problem() {
      return problem;
    },
    write: async (entries) => (await opened()).write(entries),
    purge: async (before, limit) => (await opened()).purge(before, limit),
    figures: async () => (await opened()).figures(),
    list: async (filter) => (await opened()).list(filter),
    waiting: async (...asked) => (await opened()).waiting(...asked),
    nameState: () => open?.nameState() ?? NAMED,
    closeFile,
    close: async () => {
      isClosed = true;
      await closeFile();
    },
  };
}
