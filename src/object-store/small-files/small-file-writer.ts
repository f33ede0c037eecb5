import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { memoryUse } from '../../model/memory-use.ts';
import type { AskedFiles, SmallFile, WrittenFile } from './small-file.ts';

/** So few files are written without a thread: it takes longer to start. */
const FILES_BEFORE = 32;
const IDLE_MS = 5_000;
/** So many do not wait for the thread's answer. */
const MOST_WAITING = 8;
/** One that has died so often would die again. */
const MOST_DEATHS = 3;
const LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 };

interface Waiting {
  file: SmallFile;
  content: Buffer;
  done: PromiseWithResolvers<'written' | 'not asked'>;
}

/**
 * Writes small files in a thread, many in one message: to open, write, sync, close and rename each from the main thread
 * costs it more than to fetch them. The thread is begun when many come, and ends when none has come for some seconds.
 */
export class SmallFileWriter {
  #worker: Worker | null = null;
  #waiting: Waiting[] = [];
  readonly #asked = new Map<number, Waiting>();
  #last = 0;
  #files = 0;
  #deaths = 0;
  #isWatched = false;
  #isAsking = false;

  /**
   * `written` when its bytes are on the disk and it has its name, which is not there for sure yet; `not asked` where the
   * caller is to write it. Rejects with what the file system says, as an `Error` with its `code`.
   */
  async write(file: SmallFile, content: Buffer): Promise<'written' | 'not asked'> {
    this.#files += 1;
    if (!this.#isWatched) this.#endWhenIdle();
    if (this.#files <= FILES_BEFORE || this.#deaths >= MOST_DEATHS || memoryUse() === 'low') {
      return 'not asked';
    }
    const done = Promise.withResolvers<'written' | 'not asked'>();
    this.#waiting.push({ file, content, done });
    // A message costs as much as a file: while the thread is at work, it gets the next ones with its next answer.
    if (this.#asked.size === 0 || this.#waiting.length >= MOST_WAITING) this.#askSoon();
    return done.promise;
  }

  #askSoon(): void {
    if (this.#isAsking) return;
    this.#isAsking = true;
    setImmediate(() => this.#ask());
  }

  #ask(): void {
    this.#isAsking = false;
    if (this.#waiting.length === 0) return;
    const files = this.#waiting;
    this.#waiting = [];
    const contents = new Uint8Array(files.reduce((sum, { file }) => sum + file.bytes, 0));
    let at = 0;
    const first = this.#last + 1;
    for (const waiting of files) {
      contents.set(waiting.content, at);
      at += waiting.file.bytes;
      this.#last += 1;
      this.#asked.set(this.#last, waiting);
    }
    const asked: AskedFiles = { first, files: files.map(({ file }) => file), contents };
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#worker.postMessage(asked, [contents.buffer]);
  }

  #start(): Worker {
    const script = new URL('./write-thread.ts', import.meta.url);
    const file = new URL(script.href.replace(/\.ts$/, path.extname(import.meta.filename)));
    const worker = new Worker(file, { name: 'files', resourceLimits: LIMITS });
    worker.on('message', (written: readonly WrittenFile[]) => this.#written(written));
    // Followed by the end.
    worker.on('error', () => undefined);
    worker.on('exit', () => this.#ended(worker));
    return worker;
  }

  #written(written: readonly WrittenFile[]): void {
    for (const { number, error } of written) {
      const waiting = this.#asked.get(number);
      this.#asked.delete(number);
      if (error === null) waiting?.done.resolve('written');
      else waiting?.done.reject(Object.assign(new Error(error.message), error));
    }
    if (this.#asked.size === 0 || this.#waiting.length >= MOST_WAITING) this.#ask();
    if (this.#asked.size === 0) this.#worker?.unref();
  }

  /** Whatever it had begun, the same may be begun again. */
  #ended(worker: Worker): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    this.#deaths += 1;
    for (const { done } of this.#asked.values()) done.resolve('not asked');
    this.#asked.clear();
    this.#askSoon();
  }

  #endWhenIdle(): void {
    this.#isWatched = true;
    const before = this.#files;
    setTimeout(() => {
      if (this.#files > before || this.#asked.size + this.#waiting.length > 0) return this.#endWhenIdle();
      const worker = this.#worker;
      this.#worker = null;
      this.#isWatched = false;
      this.#files = 0;
      void worker?.terminate();
    }, IDLE_MS).unref();
  }
}

/** The one of this process, whatever stores it has. */
export const smallFiles = new SmallFileWriter();
