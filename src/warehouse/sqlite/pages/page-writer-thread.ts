import { workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { answerPages } from '../../page-thread/answer-pages.ts';
import { configureWarehouse } from '../connection/configure.ts';
import { isBusy } from '../connection/errors.ts';
import { pageUnpacker, type WriteRequest } from './sent-page.ts';
import { pageTransaction, type KnownSteps, type WrittenPage } from './write-page.ts';

/** What the thread is started with. */
export interface WriterSetup extends KnownSteps {
  file: string;
}

const { file, ...steps }: WriterSetup = workerData;
// Who waits for a lock is the main thread, which asks again.
const db = new Database(file, { fileMustExist: true, timeout: 0 });
configureWarehouse(db);
const write = pageTransaction(db, steps);
const unpack = pageUnpacker();
/** Pages that are to be written once more, because the file was locked. */
const waiting = new Map<number, WrittenPage>();

/** Throws what SQLite throws, and `WriteRefused`. */
function writeOnce({ id, page, lease }: WriteRequest): void {
  const written = page === null ? waiting.get(id) : unpack(page);
  waiting.delete(id);
  if (written === undefined) throw new Error('there is no page to write once more');
  try {
    write(written, lease);
  } catch (error) {
    if (isBusy(error)) waiting.set(id, written);
    throw error;
  }
}

answerPages<WriteRequest, null>(
  (request) => {
    writeOnce(request);
    return { answer: null };
  },
  () => db.close(),
);
