import type { Message } from '../message.ts';

/** A message that did not get through: why, without the address, and how long the receiver asked to be left alone. */
export interface NotSent {
  problem: string;
  waitMs: number | null;
}

/** A way to tell somebody. */
export interface Channel {
  /** Resolves with null once the receiver has taken the message. Never rejects. */
  send(message: Message, signal: AbortSignal): Promise<NotSent | null>;
  close(): Promise<void>;
}

/** The code of an error alone, for its message may hold an address. */
export function codeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'no answer';
}
