import path from 'node:path';
import v8 from 'node:v8';
import { Worker, type Transferable } from 'node:worker_threads';
import { messageOf } from '../../model/errors.ts';

/** What a thread runs. */
export interface ThreadScript {
  /** By its name in the sources; in a build it is JavaScript. */
  script: URL;
  /** What it finds as `workerData`. */
  data: unknown;
  name: string;
}

export type Asked<Request> = { id: number; request: Request };
export type Answered<Answer> = { id: number; answer: Answer } | { id: number; error: AnsweredError };

/** An error as it comes over: its class and its cause stay in the thread. */
export interface AnsweredError {
  message: string;
  /** Such as SQLite's own. */
  code: string | null;
}

/** To be sent instead of a request: the thread does what is asked already, and ends. */
export const END = 'end';

/** A page's cells and texts, several times over; not its bodies, which lie outside of the heap. */
const LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 24 };
/** A page's cells and texts are garbage once it is written: smaller than one page, all of them would be moved before. */
v8.setFlagsFromString('--min-semi-space-size=8');

/** Whoever asked does the work without the thread: nobody else gets to see this. */
export class ThreadGone extends Error {}

/**
 * A thread that works on pages: it answers requests one after the other, in their order. It keeps the process alive only
 * while it has one to answer.
 */
export class PageThread<Request, Answer> {
  readonly #worker: Worker;
  readonly #asked = new Map<number, PromiseWithResolvers<Answer>>();
  readonly #ended = Promise.withResolvers<void>();
  #last = 0;
  #gone: ThreadGone | null = null;

  constructor({ script, data, name }: ThreadScript) {
    const file = new URL(script.href.replace(/\.ts$/, path.extname(import.meta.filename)));
    this.#worker = new Worker(file, { workerData: data, name, resourceLimits: LIMITS });
    this.#worker.unref();
    this.#worker.on('message', (answered: Answered<Answer>) => this.#answered(answered));
    let cause: unknown = null;
    // Both are followed by the end: nothing that it has begun goes on then.
    this.#worker.on('error', (error) => (cause = error));
    this.#worker.on('messageerror', (error) => {
      cause = error;
      void this.#worker.terminate();
    });
    this.#worker.on('exit', (code) => {
      this.#end(cause ?? `it ended with ${code}`);
      this.#ended.resolve();
    });
  }

  /** Resolves once the thread is no more: closed, or dead. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  get isGone(): boolean {
    return this.#gone !== null;
  }

  /** Requests that it has not answered yet. */
  get unanswered(): number {
    return this.#asked.size;
  }

  /**
   * Rejects with what the thread throws, as an `Error` with its `code`; with `ThreadGone` if the thread has died: then
   * nobody knows how far it came, and what was transferred is lost. Throws if the request cannot be cloned.
   */
  ask(request: Request, transfer: readonly Transferable[] = []): Promise<Answer> {
    if (this.#gone !== null) return Promise.reject(this.#gone);
    const id = (this.#last += 1);
    const asked: Asked<Request> = { id, request };
    this.#worker.postMessage(asked, transfer);
    const answer = Promise.withResolvers<Answer>();
    if (this.#asked.size === 0) this.#worker.ref();
    this.#asked.set(id, answer);
    return answer.promise;
  }

  /** Ends it once it has answered; may be called again. */
  async close(): Promise<void> {
    if (this.#gone === null) {
      this.#worker.ref();
      this.#worker.postMessage(END, []);
    }
    await this.#ended.promise;
  }

  #answered(answered: Answered<Answer>): void {
    const asked = this.#asked.get(answered.id);
    this.#asked.delete(answered.id);
    if (this.#asked.size === 0) this.#worker.unref();
    if ('error' in answered) asked?.reject(Object.assign(new Error(answered.error.message), answered.error));
    else asked?.resolve(answered.answer);
  }

  #end(cause: unknown): void {
    this.#gone ??= new ThreadGone(`a thread that works on pages has ended: ${messageOf(cause)}`, { cause });
    for (const { reject } of this.#asked.values()) reject(this.#gone);
    this.#asked.clear();
  }
}
