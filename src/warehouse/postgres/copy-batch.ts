import type { Connection, Submittable } from 'pg';

/** One COPY ... FROM STDIN with all that it takes in. */
export interface RowCopy {
  statement: string;
  data: Buffer;
}

/** What a query of one's own may do with a connection of `pg`; its types do not tell. */
interface CopyConnection {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * Several COPY as one question. Everything is sent at once, as the protocol allows: what follows a COPY that failed is
 * passed over by the server. So the server has work for the whole batch, while this process has other things to do.
 */
export class CopyBatch implements Submittable {
  readonly done: Promise<void>;
  /** Read by `pg`: bounds the wait for the answer, in milliseconds. */
  readonly query_timeout: number;
  readonly #copies: readonly RowCopy[];
  readonly #settle: PromiseWithResolvers<void>;

  constructor(copies: readonly RowCopy[], answerMs: number) {
    this.#copies = copies;
    this.query_timeout = answerMs;
    this.#settle = Promise.withResolvers<void>();
    this.done = this.#settle.promise;
  }

  submit(connection: Connection): void {
    // `pg` gives the connection that it has; pg-copy-streams does the same with it.
    // oxlint-disable-next-line no-unsafe-type-assertion
    const to = connection as unknown as CopyConnection;
    connection.stream.cork();
    to.query(this.#copies.map(({ statement }) => statement).join(';'));
    for (const { data } of this.#copies) {
      to.sendCopyFromChunk(data);
      to.endCopyFrom();
    }
    connection.stream.uncork();
  }

  /** Replaced by `pg` with one that ends its timer too. */
  callback(): void {
    // Nothing of ours waits for it.
  }

  handleCopyInResponse(): void {
    // Its data is on the way.
  }

  handleCommandComplete(): void {
    // The last of them is followed by `handleReadyForQuery`.
  }

  handleReadyForQuery(): void {
    this.callback();
    this.#settle.resolve();
  }

  handleError(error: unknown): void {
    this.callback();
    this.#settle.reject(error);
  }
}
