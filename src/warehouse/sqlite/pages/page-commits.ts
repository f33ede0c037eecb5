import { oncePer } from '../../once-per.ts';
import { BulkThread } from '../../page-thread/bulk-thread.ts';
import { ThreadGone, type PageThread } from '../../page-thread/page-thread.ts';
import type { LeaseProof, PageCommit, PageRows, PreparedRows } from '../../warehouse.ts';
import type { OpenFile } from '../connection/open-file.ts';
import { valuesOf } from './lease-check.ts';
import type { WriterSetup } from './page-writer-thread.ts';
import { PagesSent } from './pages-sent.ts';
import type { WriteRequest } from './sent-page.ts';
import { KNOWN_STEPS, refusalOf, underLease } from './transactions.ts';
import { pageTransaction, type WrittenPage } from './write-page.ts';

type Writer = PageThread<WriteRequest, null>;

/** How pages are committed: by this thread's connection, or, while many large ones come, by one in a thread of its own. */
export interface PageCommits {
  /** True if this thread may go on while a page is being written. */
  readonly areAside: boolean;
  /** Sends a large page to the thread, if there is one, before it is committed. */
  prepare(rows: PageRows): PreparedRows;
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
  const sentTo = oncePer((thread: Writer) => new PagesSent(thread));
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
    prepare: (rows) => {
      const thread = bulk.running(rows.records.length);
      if (thread !== null) sentTo(thread).sendAhead(rows);
      return { rows };
    },
    commit: async ({ page: { rows }, lease, statements, behind }) => {
      if (behind !== undefined) await behind;
      const page = { rows, statements };
      const thread = bulk.borrow(rows.records.length);
      if (thread === null) return here(page, lease);
      const sent = sentTo(thread);
      try {
        return await writeAside(sent, page, lease);
      } catch (error) {
        if (!(error instanceof ThreadGone)) throw error;
      } finally {
        sent.forget(rows);
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
  const commits = db
    .prepare<[string, string], number>('SELECT "commits" FROM "_sync_leases" WHERE "name" = ? AND "fence" = ?')
    .pluck();

  return async (sent: PagesSent, { rows, statements }: WrittenPage, lease: LeaseProof): Promise<void> => {
    const plain = statements.map(({ sql, parameters }) => ({ sql, parameters }));
    const ask = async (): Promise<void> => {
      const before = commits.get(lease.name, lease.fence);
      try {
        await sent.write(rows, { statements: plain, lease: valuesOf(lease) });
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
