import { BulkThread } from '../../page-thread/bulk-thread.ts';
import { ThreadGone, type PageThread } from '../../page-thread/page-thread.ts';
import type { LeaseProof, PageCommit } from '../../warehouse.ts';
import type { OpenFile } from '../connection/open-file.ts';
import { valuesOf } from './lease-check.ts';
import type { WriterSetup } from './page-writer-thread.ts';
import { pagePacker, type WriteRequest } from './sent-page.ts';
import { KNOWN_STEPS, refusalOf, underLease } from './transactions.ts';
import { pageTransaction, type WrittenPage } from './write-page.ts';

type Writer = PageThread<WriteRequest, null>;

/** How pages are committed: by this thread's connection, or, while many large ones come, by one in a thread of its own. */
export interface PageCommits {
  /** True if this thread may go on while a page is being written. */
  readonly areAside: boolean;
  commit(page: PageCommit): Promise<void>;
  /** Gives back what is only needed while many pages come. */
  rest(): Promise<void>;
  /** Resolves once nothing but this thread's connection has the file open. */
  close(): Promise<void>;
}

type WritableFile = Pick<OpenFile<unknown>, 'db' | 'gate' | 'retryWhileLocked' | 'retryWriting'>;

export function pageCommits(open: WritableFile): PageCommits {
  const { db, retryWriting } = open;
  const data: WriterSetup = { file: db.name, ...KNOWN_STEPS };
  const script = new URL('./page-writer-thread.ts', import.meta.url);
  const bulk = new BulkThread<WriteRequest, null>({ script, data, name: 'page-writer' });
  const writeAside = commitsAside(open);
  const writeHere = pageTransaction(db, KNOWN_STEPS);
  const here = (page: WrittenPage, lease: LeaseProof): Promise<void> =>
    retryWriting(() => {
      underLease(lease, () => writeHere(page, valuesOf(lease)));
      lease.committed();
    });

  return {
    get areAside() {
      return bulk.isPossible;
    },
    commit: async ({ page: { rows }, lease, statements, behind }) => {
      if (behind !== undefined) await behind;
      const page = { rows, statements };
      const thread = bulk.borrow(rows.records.length);
      if (thread === null) return here(page, lease);
      try {
        return await writeAside(thread, page, lease);
      } catch (error) {
        if (!(error instanceof ThreadGone)) throw error;
      } finally {
        bulk.release();
      }
      return here(page, lease);
    },
    rest: () => bulk.rest(),
    close: () => bulk.close(),
  };
}

/** Returns what has a thread write a page. That throws `ThreadGone` if the thread has died and the page is not in the file. */
function commitsAside({ db, gate, retryWhileLocked }: WritableFile) {
  const packers = new WeakMap<Writer, ReturnType<typeof pagePacker>>();
  const commits = db
    .prepare<[string, string], number>('SELECT "commits" FROM "_sync_leases" WHERE "name" = ? AND "fence" = ?')
    .pluck();
  const packerOf = (thread: Writer): ReturnType<typeof pagePacker> => {
    let pack = packers.get(thread);
    if (pack === undefined) packers.set(thread, (pack = pagePacker()));
    return pack;
  };
  let last = 0;

  return async (thread: Writer, written: WrittenPage, lease: LeaseProof): Promise<void> => {
    const id = (last += 1);
    let isSent = false;
    const ask = async (): Promise<void> => {
      // Asked again after the file was locked, the thread has the page already.
      const page = isSent ? null : packerOf(thread)(written);
      isSent = true;
      const before = commits.get(lease.name, lease.fence);
      try {
        await thread.ask({ id, page, lease: valuesOf(lease) }, page === null ? [] : [page.bodies]);
      } catch (error) {
        // It may have died just after it had written the page: each transaction under a lease is counted.
        const isWritten = error instanceof ThreadGone && commits.get(lease.name, lease.fence) !== before;
        if (!isWritten) throw refusalOf(error, lease.name);
      }
      lease.committed();
    };
    await retryWhileLocked(() => gate.hold(ask));
  };
}
