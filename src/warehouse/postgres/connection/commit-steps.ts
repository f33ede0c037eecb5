import { DatabaseError, type PoolClient } from 'pg';
import type { LeaseProof } from '../../warehouse.ts';
import { Batch, type Step } from './batch.ts';
import { keepMark, markBehind, mayBeFollowed, newMark, type CommitMark } from './commit-marks.ts';
import { databaseError, errorCode, remedyOf } from './errors.ts';
import {
  ANSWER_MS,
  beginning,
  orDecided,
  RETRY_FOR_MS,
  retryWhileLocked,
  rolledBack,
  type Database,
} from './transact.ts';

/** What a commit may rest on. */
export interface CommitOptions {
  /** Under which it is committed, or not at all. */
  lease?: LeaseProof;
  /** The one before, which may still be under way: this one is committed behind it, or not at all. */
  behind?: CommitUnderWay;
  /** Called with each attempt once it is sent. */
  sent?: (attempt: SentCommit) => void;
}

/** A commit that has begun, as the one behind it sees it. */
export interface CommitUnderWay {
  /** Its first attempt once that is sent; null if there was none. */
  sent: Promise<SentCommit | null>;
  /** Ends as the commit does. */
  whole: Promise<void>;
}

/** One attempt, sent as one question. */
export interface SentCommit {
  client: SharedClient;
  batch: Batch;
  mark: CommitMark;
  /** The error that came as its answer, or instead of one; null if it is committed. Never rejects. */
  failure: Promise<unknown>;
}

/**
 * One transaction of steps that are all known beforehand, as one question: the server need not wait for this process
 * before it commits. `steps` are asked for again at each attempt. Throws `SyncError`, and with `behind` what that throws.
 *
 * Behind one that is still unanswered it is sent at once, on the same connection: the server begins with it as soon as it
 * is done with the other. If that one fails, the server refuses this one too, and it is sent again once the other is
 * through.
 */
export async function commitSteps(
  database: Database,
  steps: () => readonly Step[],
  options: CommitOptions = {},
): Promise<void> {
  const { behind } = options;
  if (behind !== undefined) {
    const before = await behind.sent;
    const attempt =
      before === null || !mayFollow(database, before) ? null : sendBehind(database, before, steps, options);
    await behind.whole;
    if (attempt !== null && (await isThrough(database, attempt, options))) return;
  }
  await retryWhileLocked(database, RETRY_FOR_MS, async () => {
    const client = new SharedClient(await database.pool.connect());
    const attempt = send(database, { client, mark: newMark(client.client) }, steps, options);
    await orCommitted(database, attempt, options);
  });
}

/** Those who wait for a connection do not wait until the last page of a walk is written. */
function mayFollow({ pool }: Database, { client, batch, mark }: SentCommit): boolean {
  return pool.waitingCount === 0 && batch.mayBeFollowed && mayBeFollowed(client.client, mark);
}

function sendBehind(
  database: Database,
  before: SentCommit,
  steps: () => readonly Step[],
  options: CommitOptions,
): SentCommit {
  const client = before.client.shared();
  return send(database, { client, mark: markBehind(before.mark), before }, steps, options);
}

function send(
  database: Database,
  { client, mark, before }: Pick<SentCommit, 'client' | 'mark'> & { before?: SentCommit },
  steps: () => readonly Step[],
  { lease, sent }: CommitOptions,
): SentCommit {
  const begun = beginning(database, mark, lease === undefined ? {} : { lease });
  // It waits for the answer of the other one first.
  const answerMs = before === undefined ? ANSWER_MS : 2 * ANSWER_MS;
  const batch = new Batch([...begun, ...steps(), COMMIT], answerMs, { isSilent: true });
  if (before !== undefined) batch.sendBehind(before.batch);
  const failure = client.client.query(batch).done.then(
    () => {
      keepMark(client.client, mark);
      return null;
    },
    (error: unknown) => error,
  );
  void failure.then((error) => client.release(error));
  const attempt = { client, batch, mark, failure };
  sent?.(attempt);
  return attempt;
}

const COMMIT = { text: 'COMMIT' } as const satisfies Step;

/** Throws unless it is committed. */
async function orCommitted(database: Database, attempt: SentCommit, { lease }: CommitOptions): Promise<void> {
  const { mark, batch, failure } = attempt;
  // What the server itself refuses before the COMMIT is not committed.
  const isRefused = (error: unknown): boolean => error instanceof DatabaseError && !batch.isAtLast;
  const answered = failure.then((error) => (error === null ? undefined : Promise.reject(error)));
  await orDecided(database, { mark, isRefused, ...(lease === undefined ? {} : { lease }) }, () => answered);
}

/** Of an attempt behind one that is committed by now: false if it is to be sent again. Throws what nothing can be done about. */
async function isThrough(database: Database, attempt: SentCommit, options: CommitOptions): Promise<boolean> {
  try {
    await orCommitted(database, attempt, options);
    return true;
  } catch (error) {
    // The other one was committed by a later attempt: the one that this one was sent behind had failed.
    if (errorCode(error) === IN_FAILED_TRANSACTION || remedyOf(error) !== 'none') return false;
    throw databaseError(error, database.shown);
  }
}

const IN_FAILED_TRANSACTION = '25P02';

/** A connection that is given back by the last of those who use it. */
class SharedClient {
  readonly client: PoolClient;
  #users = 1;
  #isGivenBack = false;

  constructor(client: PoolClient) {
    this.client = client;
  }

  /** The same, for one more. */
  shared(): this {
    this.#users += 1;
    return this;
  }

  /** To be called by each of them, with what went wrong. One that was lost is given up at once, for all. */
  async release(failure: unknown): Promise<void> {
    this.#users -= 1;
    const isLost = failure !== null && remedyOf(failure) === 'server';
    if (this.#isGivenBack || (this.#users > 0 && !isLost)) return;
    this.#isGivenBack = true;
    this.client.release(isLost || (failure !== null && !(await rolledBack(this.client, failure))));
  }
}
