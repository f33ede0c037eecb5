import { PageThread, type ThreadScript } from './page-thread.ts';
import { pageThreads, type ThreadBudget } from './thread-budget.ts';

/** A page with so many rows to write is worth being handed to a thread. */
const LARGE_ROWS = 100;
/** What is over after fewer large pages is over before a thread would have helped. */
const PAGES_BEFORE = 2;
const IDLE_MS = 5_000;
/** A thread that has died so often would die again, such as one that may not open the file. */
const MOST_DEATHS = 3;

/**
 * The thread that a warehouse has while much is written to it: started with the third large page, ended when none has
 * come for some seconds, and never more than the process may have.
 */
export class BulkThread<Request, Answer> {
  readonly #script: ThreadScript;
  readonly #budget: ThreadBudget;
  #thread: PageThread<Request, Answer> | null = null;
  #borrowed = 0;
  #large = 0;
  #idle: NodeJS.Timeout | undefined;
  #deaths = 0;
  #isClosed = false;

  constructor(script: ThreadScript, budget: ThreadBudget = pageThreads) {
    this.#script = script;
    this.#budget = budget;
  }

  /** True if pages may ever be worked on in a thread. */
  get isPossible(): boolean {
    return this.#budget.most > 0;
  }

  /**
   * The thread for a page of so many rows, to be released afterwards; null if the page is to be worked on without one.
   * To be called once per page.
   */
  borrow(rows: number): PageThread<Request, Answer> | null {
    clearTimeout(this.#idle);
    this.#idle = this.#thread === null && this.#large === 0 && rows < LARGE_ROWS ? undefined : this.#endLater();
    if (rows < LARGE_ROWS || this.#isClosed || this.#deaths >= MOST_DEATHS) return null;
    this.#large += 1;
    if (this.#large <= PAGES_BEFORE) return null;
    const thread = this.#thread ?? this.#start();
    if (thread !== null) this.#borrowed += 1;
    return thread;
  }

  release(): void {
    this.#borrowed -= 1;
  }

  /** Ends the thread if nobody has it, so that its memory can be used: if many pages come, another one is begun. */
  async rest(): Promise<void> {
    if (this.#borrowed === 0) await this.#end();
  }

  /** To be called when nothing is borrowed any more. Resolves once the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#end();
  }

  #start(): PageThread<Request, Answer> | null {
    if (!this.#budget.take()) return null;
    const thread = new PageThread<Request, Answer>(this.#script);
    this.#thread = thread;
    void this.#ended(thread);
    return thread;
  }

  async #ended(thread: PageThread<Request, Answer>): Promise<void> {
    await thread.ended;
    this.#budget.giveBack();
    // A dead one: the next comes after some large pages more.
    if (this.#thread !== thread) return;
    this.#deaths += 1;
    this.#forget();
  }

  #endLater(): NodeJS.Timeout {
    return setTimeout(() => {
      if (this.#borrowed > 0) this.#idle = this.#endLater();
      else void this.#end();
    }, IDLE_MS).unref();
  }

  #forget(): void {
    this.#thread = null;
    this.#large = 0;
  }

  async #end(): Promise<void> {
    clearTimeout(this.#idle);
    const thread = this.#thread;
    this.#forget();
    await thread?.close();
  }
}
