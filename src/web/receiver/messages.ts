import type { Settlement } from '../../warehouse/inbox.ts';
import type { ReceiverFigures } from './figures.ts';

/** A request for something that the main thread makes: the status page, metrics, readiness. */
export interface PageRequest {
  method: 'GET' | 'HEAD';
  /** Path and query as they were sent. */
  path: string;
  /** By lower-case name. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface PageAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string | Uint8Array;
}

/** Something that the receiver has to say; `error` is the text of what was thrown. */
export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  error?: string;
}

/** An error of ours on its way between the threads, which would lose its class. */
export interface ErrorMessage {
  isConfig: boolean;
  code: string;
  message: string;
  hint: string | undefined;
}

/** What the main thread says, by kind. Those with a `call` are answered under the same number. */
export interface ToReceiver {
  settle: { call: number; source: string; settlements: readonly Settlement[] };
  figures: { call: number };
  reopen: { call: number; source: string };
  /** While it is held back, nothing is taken for the source. */
  hold: { source: string; isHeld: boolean };
  close: { call: number };
  page: { call: number; answer: PageAnswer | null };
  /** It lives; the answer to figures. With the secrets that it has learned since. */
  alive: { secrets: readonly string[] };
}

/** What the receiver says, by kind. */
export interface FromReceiver {
  listening: { port: number };
  failed: ErrorMessage;
  done: { call: number; error: ErrorMessage | null };
  figures: { call: number | null; figures: ReceiverFigures };
  arrival: { source: string; count: number };
  page: { call: number; request: PageRequest };
  note: ReceiverNote;
}

/** One message of a set: its kind, and what belongs to it. */
export type Message<M> = { [K in keyof M]: { kind: K; body: M[K] } }[keyof M];

/** What to do with each kind. */
export type MessageHandlers<M> = { readonly [K in keyof M]: (body: M[K]) => void };

export function hear<M, K extends keyof M>(hearers: MessageHandlers<M>, { kind, body }: { kind: K; body: M[K] }): void {
  hearers[kind](body);
}
