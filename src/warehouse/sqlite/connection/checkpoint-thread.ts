import { workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { answerPages } from '../../page-thread/answer-pages.ts';

const file: unknown = workerData;
if (typeof file !== 'string') throw new TypeError('the thread is given the path of a database');
const db = new Database(file, { fileMustExist: true, timeout: 0 });
const copy = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');

/** Answers once what is in the WAL is copied, but for what somebody still reads. */
answerPages<null, null>(
  () => {
    copy.get();
    return { answer: null };
  },
  () => db.close(),
);
