import type { Readable } from 'node:stream';

/** An answer whose body is still to come. */
export interface StreamedAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Readable;
  /** To be called with the bytes of each chunk as received. */
  count: (bytes: number) => void;
}

/** Takes bodies as they come, so that nothing of them is kept in memory. */
export interface BodySink {
  /** Headers of the next attempt, wherever it goes. */
  headers(): Readonly<Record<string, string>>;
  /** Reads a body to its end, or destroys it. Throws what the stream fails with, and nothing else. */
  receive(answer: StreamedAnswer): Promise<void>;
}
