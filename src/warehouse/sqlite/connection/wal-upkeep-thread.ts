import { workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { excludeEnvironment } from '../../../observe/exclude-environment.ts';

/** How often what was written meanwhile is copied once more. */
const PASSES = 3;
/** So few pages are copied within the time that a page of records takes to be written. */
const FEW_PAGES = 1_000;
/** How long writers wait at most for readers to leave, so that the WAL can be cut off. */
const WAIT_MS = 200;

/** The result of a WAL checkpoint: pages in the WAL, and those of them copied into the database. */
interface Checkpoint {
  log: number;
  checkpointed: number;
}

excludeEnvironment();
const file: unknown = workerData;
if (typeof file !== 'string') throw new TypeError('the worker is given the path of a database');
const db = new Database(file, { fileMustExist: true, timeout: 0 });
try {
  if (isCopied(db)) {
    db.pragma(`busy_timeout = ${WAIT_MS}`);
    db.pragma('wal_checkpoint(TRUNCATE)');
  }
} finally {
  db.close();
}

/**
 * Copies the bulk while everybody goes on writing. False if a reader still needs what is in the WAL: to wait for it
 * under the write lock would only keep the writers from their work.
 */
function isCopied(db: Database.Database): boolean {
  for (let pass = 0; pass < PASSES; pass += 1) {
    const { log, checkpointed } = checkpoint(db);
    if (log - checkpointed < FEW_PAGES) return true;
  }
  return false;
}

function checkpoint(db: Database.Database): Checkpoint {
  const row = db.prepare<[], Checkpoint>('PRAGMA wal_checkpoint(PASSIVE)').get();
  return row ?? { log: 0, checkpointed: 0 };
}
