import type { PageThread } from '../../page-thread/page-thread.ts';
import type { PageRows } from '../../warehouse.ts';
import { pagePacker, type WriteRequest } from './sent-page.ts';

/** Pages that a thread has before their turn: the one that comes next, and of each resource that is read beside it. */
const MOST_AHEAD = 4;
/** Bytes of their records. */
const MOST_BYTES = 4_194_304;

/**
 * The pages that the thread has which writes them. They are sent as soon as they are prepared, while it writes those before:
 * in its turn a page then costs no more than a short message.
 */
export class PagesSent {
  readonly #thread: PageThread<WriteRequest, null>;
  readonly #pack = pagePacker();
  /** In the order in which they were sent. */
  readonly #sent = new Map<PageRows, { id: number; bytes: number }>();
  /** Those that the thread need not keep any more, to be told with the next request. */
  #forgotten: number[] = [];
  #last = 0;

  constructor(thread: PageThread<WriteRequest, null>) {
    this.#thread = thread;
  }

  /** Sends a page before its turn. Nothing is lost if it never gets one: then others take its place. */
  sendAhead(rows: PageRows): void {
    const bytes = bytesOf(rows);
    if (bytes > MOST_BYTES) return;
    this.#makeRoom(bytes);
    // What is wrong with it is said in its turn.
    this.#send(rows, null).catch(() => undefined);
  }

  /** Has a page written. To be called again with the same one if the file was locked: the thread has it by then. */
  async write(rows: PageRows, turn: NonNullable<WriteRequest['turn']>): Promise<void> {
    const sent = this.#sent.get(rows);
    if (sent === undefined) await this.#send(rows, turn);
    else await this.#thread.ask({ id: sent.id, forgotten: this.#nowForgotten(), page: null, turn });
  }

  /** To be called when a page is written, or is not to be. */
  forget(rows: PageRows): void {
    const sent = this.#sent.get(rows);
    if (sent !== undefined) this.#forgotten.push(sent.id);
    this.#sent.delete(rows);
  }

  #send(rows: PageRows, turn: WriteRequest['turn']): Promise<null> {
    const id = (this.#last += 1);
    const page = this.#pack(rows);
    const answer = this.#thread.ask({ id, forgotten: this.#nowForgotten(), page, turn }, [page.bodies]);
    this.#sent.set(rows, { id, bytes: bytesOf(rows) });
    return answer;
  }

  /** The pages that were sent first make way. */
  #makeRoom(bytes: number): void {
    let taken = bytes + this.#sent.values().reduce((sum, sent) => sum + sent.bytes, 0);
    for (const [rows, sent] of this.#sent) {
      if (this.#sent.size < MOST_AHEAD && taken <= MOST_BYTES) break;
      taken -= sent.bytes;
      this.forget(rows);
    }
  }

  #nowForgotten(): number[] {
    const forgotten = this.#forgotten;
    this.#forgotten = [];
    return forgotten;
  }
}

function bytesOf({ records }: PageRows): number {
  return records.reduce((sum, { bytes }) => sum + bytes.length, 0);
}
