import { workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { answerPages } from '../../page-thread/answer-pages.ts';
import { configureWarehouse } from '../connection/configure.ts';
import { checkpointsBetween } from '../connection/checkpoints-between.ts';
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
const checkpoints = checkpointsBetween(db);
const write = pageTransaction(db, steps);
const unpack = pageUnpacker();
/** Pages that are to be written once more, because the file was locked. */
const waiting = new Map<number, { written: WrittenPage; bodies: ArrayBuffer }>();

/** Throws what SQLite throws, and `WriteRefused`. */
function writeOnce({ id, page, lease }: WriteRequest): void {
  const asked = page === null ? waiting.get(id) : { written: unpack(page), bodies: page.bodies };
  waiting.delete(id);
  if (asked === undefined) throw new Error('there is no page to write once more');
  try {
    write(asked.written, lease);
  } catch (error) {
    if (isBusy(error)) waiting.set(id, asked);
    throw error;
  }
  // They were handed over and are in the file now: no collection of garbage has to come to give their memory back.
  asked.bodies.transfer(0);
}

answerPages<WriteRequest, null>(
  (request) => {
    writeOnce(request);
    return { answer: null, afterwards: checkpoints.look };
  },
  () => {
    checkpoints.end();
    db.close();
  },
);
