import {
  type PoolClient,
  type QueryConfig,
  Query,
  type Connection,
  type QueryResult,
  type QueryResultRow,
  type Submittable,
} from 'pg';
import type { ExecuteSql, SqlResult } from '../../database.ts';
import { VALUE_PARSERS } from './column-types.ts';

/** One transaction's connection. */
export interface Session {
  /** Nothing is prepared beyond a statement, as poolers in transaction mode ask for. */
  execute: ExecuteSql;
  /** Several statements in one round trip. */
  runAll(steps: readonly Step[]): Promise<Answer[]>;
}

/** `answerMs` bounds the wait for each answer. */
export function sessionOf(client: PoolClient, answerMs: number): Session {
  return {
    execute: (text, values) => client.query(queryOf(text, values, answerMs)),
    runAll: (steps) => (steps.length === 0 ? Promise.resolve([]) : client.query(new Batch(steps, answerMs)).done),
  };
}

/** The row of a statement that always has one. */
export function onlyRow<Row>({ rows: [row] }: SqlResult<Row>): Row {
  if (row === undefined) throw new Error('a statement without its row');
  return row;
}

/** One statement, with a bound on the wait for its answer: a network that is cut without a word never gives one. */
export function queryOf(text: string, values: readonly unknown[] | undefined, answerMs: number): QueryConfig {
  const query = { text, ...(values === undefined ? {} : { values: [...values] }) };
  // Not in the types of `pg`, which takes it per statement as it does for a whole connection.
  return Object.assign(query, { query_timeout: answerMs });
}

/** One statement of a batch. */
export interface Step {
  text: string;
  values?: readonly unknown[];
  /** The data of a `COPY ... FROM STDIN`. */
  data?: Buffer;
  /**
   * Thrown if there was no row for it. It explains more than any error that follows from it. As with `refuse`, what
   * follows has been done by then: a COMMIT must be a question of its own.
   */
  ifNone?: () => Error;
  /** The error that the first row stands for; null if all is well. */
  refuse?: (row: Readonly<Record<string, unknown>>) => Error | null;
}

/** The result of a step. */
export type Answer = QueryResult<QueryResultRow>;

/** The methods that `pg` calls on its queries; missing in its types. */
interface Answering extends Submittable {
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}

interface Asked {
  step: Step;
  query: Answering;
  answer: Answer | null;
  /** By `pg`, which has not sent all of it. */
  isRefused: boolean;
}

/**
 * Several statements as one question, as the protocol allows: what follows one that failed is passed over by the
 * server. So a page takes one round trip, and the server has work for all of it, while this process does other things.
 */
export class Batch implements Submittable {
  readonly done: Promise<Answer[]>;
  /** Read by `pg`: bounds the wait for the answer, in milliseconds. */
  readonly query_timeout: number;
  readonly #asked: readonly Asked[];
  readonly #settle: PromiseWithResolvers<Answer[]>;
  /** Steps that are through. */
  #through = 0;
  #refusal: Error | null = null;

  constructor(steps: readonly Step[], answerMs: number) {
    this.#asked = steps.map(asked);
    this.query_timeout = answerMs;
    this.#settle = Promise.withResolvers<Answer[]>();
    this.done = this.#settle.promise;
  }

  submit(connection: Connection): void {
    // A query ends with a sync, after which the server would go on behind one that failed.
    const unsynced: Connection = Object.create(connection, { sync: { value: () => undefined } });
    connection.stream.cork();
    for (const asked of this.#asked) {
      const { query, step } = asked;
      query.submit(unsynced);
      // Its values cannot be sent: nothing behind it may be done, a COMMIT least of all.
      if (asked.isRefused) break;
      if (step.data !== undefined) sendCopyData(connection, step.data);
    }
    connection.sync();
    connection.stream.uncork();
  }

  /** Replaced by `pg` with one that ends its timer too. */
  callback(): void {
    // Nothing of ours waits for it.
  }

  handleRowDescription(message: unknown): void {
    this.#current()?.query.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#current()?.query.handleDataRow(message);
  }

  handleCopyInResponse(): void {
    // Its data is on the way.
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    const current = this.#current();
    if (current === undefined) return;
    this.#through += 1;
    const { query, step } = current;
    query.handleCommandComplete(message, connection);
    query.handleReadyForQuery(connection);
    if (current.answer?.rowCount === 0) this.#refusal ??= step.ifNone?.() ?? null;
    const row: unknown = current.answer?.rows[0];
    if (isRow(row)) this.#refusal ??= step.refuse?.(row) ?? null;
  }

  handleReadyForQuery(): void {
    this.callback();
    const answers = this.#asked.flatMap(({ answer }) => answer ?? []);
    if (answers.length < this.#asked.length) this.#refusal ??= new Error('a statement of a batch was not sent');
    if (this.#refusal === null) this.#settle.resolve(answers);
    else this.#settle.reject(this.#refusal);
  }

  handleError(error: unknown): void {
    this.callback();
    this.#settle.reject(this.#refusal ?? error);
  }

  #current(): Asked | undefined {
    return this.#asked[this.#through];
  }
}

function isRow(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** A message is a letter, and a length that includes itself. */
const COPY_DATA_HEADER = Buffer.from('d\0\0\0\0', 'latin1');
const COPY_DONE = Buffer.from('c\0\0\0\u0004', 'latin1');

function sendCopyData(connection: Connection, data: Buffer): void {
  const header = Buffer.from(COPY_DATA_HEADER);
  header.writeInt32BE(data.length + 4, 1);
  for (const bytes of [header, data, COPY_DONE]) connection.stream.write(bytes);
}

/** The query keeps what comes for it, and returns it when nothing more comes. */
function asked(step: Step): Asked {
  const { text, values = [] } = step;
  // `queryMode` is not in the types of `pg`: as everything here, statements without values go by the protocol's steps.
  const config = { text, values: [...values], types: VALUE_PARSERS, queryMode: 'extended' };
  const query = new Query(config, undefined, (error: unknown, answer) => {
    entry.isRefused = error !== null && error !== undefined;
    if (!entry.isRefused) entry.answer = answer;
  });
  // Nor is what it does with the answers.
  // oxlint-disable-next-line no-unsafe-type-assertion
  const entry: Asked = { step, query: query as unknown as Answering, answer: null, isRefused: false };
  return entry;
}
