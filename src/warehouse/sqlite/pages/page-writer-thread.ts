import { workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { answerPages } from '../../page-thread/answer-pages.ts';
import type { PageRows } from '../../warehouse.ts';
import { configureWarehouse } from '../connection/configure.ts';
import { isBusy } from '../connection/errors.ts';
import { pageUnpacker, type WriteRequest } from './sent-page.ts';
import { pageTransaction, type KnownSteps } from './write-page.ts';

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
/** Pages that came before their turn, or are to be written once more because the file was locked. */
const pages = new Map<number, { rows: PageRows; bodies: ArrayBuffer }>();

/** Throws what SQLite throws, and `WriteRefused`. */
function writeNow(id: number, { lease, statements }: NonNullable<WriteRequest['turn']>): void {
  const page = pages.get(id);
  if (page === undefined) throw new Error('there is no page to write');
  try {
    write({ rows: page.rows, statements }, lease);
  } catch (error) {
    if (!isBusy(error)) pages.delete(id);
    throw error;
  }
  pages.delete(id);
  // They were handed over and are in the file now: no collection of garbage has to come to give their memory back.
  page.bodies.transfer(0);
}

answerPages<WriteRequest, null>(
  ({ id, forgotten, page, turn }) => {
    for (const old of forgotten) pages.delete(old);
    if (page !== null) pages.set(id, { rows: unpack(page), bodies: page.bodies });
    if (turn !== null) writeNow(id, turn);
    return { answer: null };
  },
  () => db.close(),
);
