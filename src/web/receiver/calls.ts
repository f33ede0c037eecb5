import type { Readable } from 'node:stream';
import type { MessagePort, Worker } from 'node:worker_threads';
import { createBirpc, type BirpcReturn } from 'birpc';
import { ConfigError, SyncError, messageOf } from '../../model/errors.ts';
import type { Settlement } from '../../warehouse/inbox.ts';
import type { ReceiverFigures } from './figures.ts';
import type { ReceivedSource } from './setup.ts';

/** A request for something that the main thread makes: the status page, metrics, readiness. */
export interface PageRequest {
  method: 'GET' | 'HEAD' | 'POST';
  /** Path and query as they were sent. */
  path: string;
  /** Of a form; absent until the main thread has answered 100 to its headers. */
  body?: string;
  /** By lower-case name. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface PageAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string | Uint8Array;
  /** Number of a body that is asked for piece by piece (`MainCalls.piece`), in place of `body`. */
  long?: number;
}

/** An answer as the main thread makes it. */
export interface MadePage extends Omit<PageAnswer, 'long'> {
  /** What is sent in place of `body`, however long it is; its length stands in the headers. */
  stream?: Readable;
}

/** Something that the receiver reports; `error` is the message of what was thrown. */
export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  error?: string;
  /** Why a delivery was refused; or how often several were, by reason. */
  reason?: string;
  count?: number;
  reasons?: Readonly<Record<string, number>>;
}

/** Calls that the receiver's thread answers. */
export interface ReceiverCalls {
  /** Resolves with the port once it listens. The thread ends if it cannot. */
  open(): Promise<number>;
  /** Resolves once they are committed. */
  settle(source: string, settlements: readonly Settlement[]): Promise<void>;
  /** `secrets` are those that the main thread has learned since the last call. */
  figures(secrets: readonly string[]): Promise<ReceiverFigures>;
  /** Opens the inbox file of a source anew, which was replaced by another one. */
  reopen(source: string): Promise<void>;
  /** Answers deliveries for the source by these settings from now on. Rejects, and changes nothing, if they cannot be used. */
  receive(source: ReceivedSource, secrets: readonly string[]): Promise<void>;
  /** Answers none for it any more, and closes its inbox. */
  forget(source: string): Promise<void>;
  /** Without an answer. */
  hold(source: string, isHeld: boolean): Promise<void>;
  /** Answers open requests, commits their deliveries, and closes everything; the thread ends after its answer. */
  close(): Promise<void>;
}

/** An answer of the main thread, which shows that it lives, with the secrets that it has learned since the last one. */
export interface MainAnswer<T> {
  answer: T;
  secrets: readonly string[];
}

/** Calls that the main thread answers. */
export interface MainCalls {
  page(request: PageRequest): Promise<MainAnswer<PageAnswer>>;
  /** The next piece of a long body; null at its end. Rejects if it broke off. */
  piece(long: number): Promise<Uint8Array | null>;
  figures(figures: ReceiverFigures): MainAnswer<null>;
  /** Nobody reads the rest of a long body. Without an answer. */
  dropped(long: number): void;
  /** Without an answer, as `note`. */
  arrived(source: string, count: number): void;
  note(note: ReceiverNote): void;
}

/** Connects a thread with the other one. A call ends with its answer or with the connection, never by time. */
export function connect<Remote extends object, Local extends object>(
  port: MessagePort | Worker,
  local: Local,
): BirpcReturn<Remote, Local> {
  return createBirpc<Remote, Local>(local, {
    post: (message) => port.postMessage(message),
    on: (receive) => void port.on('message', receive),
    timeout: -1,
    serialize: (message: BirpcMessage) => ('e' in message ? { ...message, e: errorMessage(message.e) } : message),
    deserialize: (message: BirpcMessage) => ('e' in message ? { ...message, e: errorOf(message.e) } : message),
  });
}

/** `e` is there in an answer that is an error: structured cloning would take its class. */
type BirpcMessage = { e: ErrorMessage } | object;

interface ErrorMessage {
  isConfig: boolean;
  code: string;
  message: string;
  hint: string | undefined;
}

function errorMessage(error: unknown): ErrorMessage {
  const message = messageOf(error);
  if (!(error instanceof SyncError)) return { isConfig: false, code: 'receiver_failed', message, hint: undefined };
  return { isConfig: error instanceof ConfigError, code: error.code, message, hint: error.hint };
}

function errorOf({ isConfig, code, message, hint }: ErrorMessage): SyncError {
  if (isConfig) return new ConfigError(code, message, hint === undefined ? {} : { hint });
  return new SyncError(code, message, { recovery: 'stop', hint });
}
