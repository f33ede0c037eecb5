import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import type { Inbox, InboxFigures } from '../../warehouse/inbox.ts';
import { NAMED, nameLost, restingState, type FileMark, type NameState } from '../../warehouse/name-state.ts';
import type { InboxOptions } from '../../warehouse/database.ts';
import { databaseAt, openInbox, shownPlace } from '../../warehouse/databases.ts';

/** Between two attempts, each made by a call: a disk that is not mounted yet, or a file that is put back. */
const REOPEN_MS = 5_000;
/** A file that nothing was asked of for so long is closed; the next call opens it again. */
const LINGER_MS = 5_000;
/** Two changes within a moment may leave a file the same time. */
const SETTLED_MS = 100;
/**
 * The inbox at an address, which is opened when it is used, and closed while it is idle if it is a file. While it cannot
 * be opened, all calls throw the reason.
 */
export class LazyInbox {
  /** Why it could not be opened so far; null if it is open, or closed until it is used. */
  problem: unknown = null;
  readonly #address: string;
  readonly #clock: Clock;
  readonly #options: InboxOptions | undefined;
  #inbox: Inbox | null = null;
  #opening: Promise<void> | null = null;
  #closing: Promise<void> = Promise.resolve();
  #notBefore = -Infinity;
  #isClosed = false;
  #users = 0;
  #resting: AbortController | null = null;
  /** Of the file that was open last; null for any. */
  #known: string | null = null;
  #counted: { figures: InboxFigures; content: string } | null = null;

  constructor(address: string, clock: Clock, options?: InboxOptions) {
    this.#address = address;
    this.#clock = clock;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#inbox !== null;
  }

  /** Opens it now, or sets `problem`. Does not throw. */
  async open(): Promise<void> {
    await this.#use(() => Promise.resolve()).catch(() => undefined);
  }

  readonly write: Inbox['write'] = (entries) => this.#use((inbox) => inbox.write(entries));
  readonly purge: Inbox['purge'] = (before, limit) => this.#look((inbox) => inbox.purge(before, limit));
  readonly list: Inbox['list'] = (filter) => this.#look((inbox) => inbox.list(filter));
  readonly waiting: Inbox['waiting'] = (...asked) => this.#use((inbox) => inbox.waiting(...asked));

  /** While nobody writes to the file, what was counted last still holds. To be counted keeps no file open. */
  readonly figures: Inbox['figures'] = async () => {
    const mark = this.#mark();
    const counted = this.#counted;
    const isNamed = this.nameState().is === 'named';
    if (mark !== null && isNamed && counted !== null && counted.content === mark.content) return counted.figures;
    const isSettled = mark !== null && this.#clock.now() - mark.changedAt > SETTLED_MS;
    const figures = await this.#look((inbox) => inbox.figures());
    this.#counted = isSettled ? { figures, content: mark.content } : null;
    return figures;
  };

  readonly nameState = (): NameState => {
    if (this.#inbox !== null) return this.#inbox.nameState();
    const mark = this.#known === null ? null : this.#mark();
    return mark === null ? NAMED : restingState(this.#known, mark);
  };

  /** Closes the file if it is open; the next call opens the file that has its name then, without a pause. */
  async closeFile(): Promise<void> {
    await this.#opening;
    this.#notBefore = -Infinity;
    await this.#close();
    this.#known = null;
  }

  /** Closes the file if it is idle; the next call opens it again. */
  async rest(): Promise<void> {
    // Connections to a server are shared, and stay open; a file that has lost its name is closed by `closeFile`.
    const isInUse = this.#users > 0 || this.#mark() === null;
    if (!isInUse && this.#inbox?.nameState().is === 'named') await this.#close();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.closeFile();
  }

  async #use<T>(work: (inbox: Inbox) => Promise<T>): Promise<T> {
    this.#stay();
    return this.#used(work);
  }

  /** Reads without keeping the file open: there may be hundreds of inboxes. */
  async #look<T>(work: (inbox: Inbox) => Promise<T>): Promise<T> {
    const isOpenedForThis = this.#inbox === null && this.#opening === null;
    try {
      return await this.#used(work);
    } finally {
      if (isOpenedForThis) await this.rest().catch(() => undefined);
    }
  }

  async #used<T>(work: (inbox: Inbox) => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await work(await this.#opened());
    } finally {
      this.#users -= 1;
      if (this.#users === 0 && this.#inbox !== null && this.#resting === null) void this.#restLater();
    }
  }

  #stay(): void {
    this.#resting?.abort();
    this.#resting = null;
  }

  async #opened(): Promise<Inbox> {
    const mayOpen = !this.#isClosed && this.#clock.monotonic() >= this.#notBefore;
    if (this.#inbox === null && mayOpen) await (this.#opening ??= this.#attempt());
    if (this.#inbox !== null) return this.#inbox;
    if (this.problem instanceof SyncError) throw this.problem;
    const message = messageOf(this.problem ?? 'it is closed');
    throw new SyncError('inbox_closed', message, { recovery: 'stop', cause: this.problem });
  }

  async #attempt(): Promise<void> {
    try {
      await this.#closing;
      // Not a file that has taken the name of the one that was closed.
      const { is } = this.nameState();
      if (is !== 'named') throw nameLost(shownPlace(this.#address), is);
      this.#inbox = await openInbox(this.#address, this.#clock, this.#options);
      this.#known = this.#mark()?.identity ?? null;
      this.problem = null;
    } catch (error) {
      this.problem = error;
      // A file that is put back is taken at once.
      const isAway = this.nameState().is !== 'named';
      this.#notBefore = isAway ? -Infinity : this.#clock.monotonic() + REOPEN_MS;
    }
    this.#opening = null;
  }

  async #restLater(): Promise<void> {
    const resting = new AbortController();
    this.#resting = resting;
    await sleepOrAbort(this.#clock, LINGER_MS, resting.signal);
    if (resting.signal.aborted) return;
    this.#resting = null;
    await this.rest().catch(() => undefined);
  }

  #close(): Promise<void> {
    this.#stay();
    const inbox = this.#inbox;
    this.#inbox = null;
    if (inbox === null) return this.#closing;
    this.#closing = this.#closing.catch(() => undefined).then(() => inbox.close());
    return this.#closing;
  }

  #mark(): FileMark | null {
    return databaseAt(this.#address).mark();
  }
}
