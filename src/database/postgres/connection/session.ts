// Statements of one transaction. A batch sends several of them in one round trip.
import type { CompiledQuery } from 'kysely';
import {
  type Connection,
  type PoolClient,
  Query,
  type QueryConfig,
  type QueryResult,
  type QueryResultRow,
  type Submittable,
} from 'pg';
import type { ExecuteSql, SqlResult } from '../../database.ts';
import { VALUE_PARSERS } from './column-types.ts';

/** The connection of one transaction. */
export interface Session {
  /** No statement stays prepared, because poolers in transaction mode do not allow it. */
  execute: ExecuteSql;
  /** Several statements in one round trip. */
  runAll(steps: readonly Step[]): Promise<StepResult[]>;
}

/** `timeoutMs` is the timeout of each response. */
export function createSession(client: PoolClient, timeoutMs: number): Session {
  return {
    execute: (text, values) => client.query(toQuery(text, values, timeoutMs)),
    runAll: (steps) => (steps.length === 0 ? Promise.resolve([]) : client.query(new Batch(steps, timeoutMs)).done),
  };
}

/** The row of a statement that always has one. */
export function onlyRow<Row>({ rows: [row] }: SqlResult<Row>): Row {
  if (row === undefined) throw new Error('a statement without its row');
  return row;
}

/** One statement with a timeout: a broken network may never deliver a response. */
export function toQuery(text: string, values: readonly unknown[] | undefined, timeoutMs: number): QueryConfig {
  const query = { text, ...(values === undefined ? {} : { values: [...values] }) };
  // The types of `pg` only have it for a whole connection.
  return Object.assign(query, { query_timeout: timeoutMs });
}

/** One statement of a batch. */
export interface Step {
  text: string;
  values?: readonly unknown[];
  /**
   * The error if the statement affects no row. As with `refuse`, later steps have run by then, so that a COMMIT must not
   * be in the same batch.
   */
  ifNone?: () => Error;
  /** Returns the error that the first row means; null if there is none. */
  refuse?: (row: Readonly<Record<string, unknown>>) => Error | null;
}

export function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}

export type StepResult = QueryResult<QueryResultRow>;

/** The methods that `pg` calls on its queries; missing in its types. */
interface MessageHandler extends Submittable {
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
}

interface SentStep {
  step: Step;
  query: MessageHandler;
  result: StepResult | null;
  /** True if `pg` could not send all of it. */
  isRefused: boolean;
}

/** Sends several statements in one round trip. After a failed one, the server skips the others. */
export class Batch implements Submittable {
  readonly done: Promise<StepResult[]>;
  /** Read by `pg`: the timeout of the response in milliseconds. */
  readonly query_timeout: number;
  readonly #steps: readonly SentStep[];
  readonly #completion: PromiseWithResolvers<StepResult[]>;
  #completed = 0;
  #refusal: Error | null = null;

  constructor(steps: readonly Step[], timeoutMs: number) {
    this.#steps = steps.map(prepareStep);
    this.query_timeout = timeoutMs;
    this.#completion = Promise.withResolvers<StepResult[]>();
    this.done = this.#completion.promise;
  }

  submit(connection: Connection): void {
    // Each query ends with a sync, after which the server would continue after a failed one.
    const unsynced: Connection = Object.create(connection, { sync: { value: () => undefined } });
    connection.stream.cork();
    for (const sent of this.#steps) {
      sent.query.submit(unsynced);
      // Its values cannot be sent: no later statement may run.
      if (sent.isRefused) break;
    }
    connection.sync();
    connection.stream.uncork();
  }

  /** `pg` replaces it by a callback that also stops its timer. */
  callback(): void {
    // Nothing waits for it.
  }

  handleRowDescription(message: unknown): void {
    this.#current()?.query.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#current()?.query.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    const current = this.#current();
    if (current === undefined) return;
    this.#completed += 1;
    const { query, step } = current;
    query.handleCommandComplete(message, connection);
    query.handleReadyForQuery(connection);
    if (current.result?.rowCount === 0) this.#refusal ??= step.ifNone?.() ?? null;
    const row: unknown = current.result?.rows[0];
    if (isRow(row)) this.#refusal ??= step.refuse?.(row) ?? null;
  }

  handleReadyForQuery(): void {
    this.callback();
    const results = this.#steps.flatMap(({ result }) => result ?? []);
    if (results.length < this.#steps.length) this.#refusal ??= new Error('a statement of a batch was not sent');
    if (this.#refusal === null) this.#completion.resolve(results);
    else this.#completion.reject(this.#refusal);
  }

  handleError(error: unknown): void {
    this.callback();
    this.#completion.reject(this.#refusal ?? error);
  }

  #current(): SentStep | undefined {
    return this.#steps[this.#completed];
  }
}

function isRow(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** The query collects the messages of its response, and returns the result at the end. */
function prepareStep(step: Step): SentStep {
  const { text, values = [] } = step;
  // The types of `pg` lack `queryMode`, which also sends statements without values by the extended protocol.
  const config = { text, values: [...values], types: VALUE_PARSERS, queryMode: 'extended' };
  const query = new Query(config, undefined, (error: unknown, result) => {
    entry.isRefused = error !== null && error !== undefined;
    if (!entry.isRefused) entry.result = result;
  });
  // They also lack the methods that handle messages.
  // oxlint-disable-next-line no-unsafe-type-assertion
  const entry: SentStep = { step, query: query as unknown as MessageHandler, result: null, isRefused: false };
  return entry;
}
