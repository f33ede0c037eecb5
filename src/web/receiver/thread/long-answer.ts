import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { PageAnswer } from '../calls.ts';

/** Pieces of bodies that the main thread holds. */
export interface LongPieces {
  /** Null at the end. Rejects if the body broke off, or was let go because nobody asked for long. */
  next(long: number): Promise<Uint8Array | null>;
  /** The rest is not asked for. */
  dropped(long: number): void;
  /** How long its reader may take nothing, in milliseconds. */
  readonly idleMs: number;
}

/**
 * Sends an answer whose body comes in pieces, each when the one before has gone out; its length stands in the headers.
 * One that breaks off ends with its connection, so that nobody takes a part for the whole. Never rejects.
 */
export async function sendLong(
  { status, headers }: PageAnswer,
  long: number,
  pieces: LongPieces,
  response: ServerResponse,
): Promise<void> {
  response.setTimeout(pieces.idleMs, () => response.destroy());
  response.writeHead(status, { ...headers });
  // The response is destroyed by then: its reader is gone, or there are no more pieces.
  await pipeline(bodyOf(long, pieces), response).catch(() => undefined);
}

async function* bodyOf(long: number, pieces: LongPieces): AsyncGenerator<Uint8Array> {
  try {
    for (let piece = await pieces.next(long); piece !== null; piece = await pieces.next(long)) yield piece;
  } finally {
    pieces.dropped(long);
  }
}
