import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Clock } from '../../../src/model/clock.ts';
import type { PageParts } from './pages/listing-page.ts';

export type AnswerHeaders = Record<string, string | string[]>;

/** A connection, the service's clock and a signal that fires when the client is gone. */
export interface Wire {
  request: IncomingMessage;
  response: ServerResponse;
  clock: Clock;
  gone: AbortSignal;
}

/** Puts an answer on the wire; the ordinary one is `sendPlain`, the broken ones are faults. */
export type Delivery = (wire: Wire, answer: Answer) => void | Promise<void>;

/** One answer before it is sent. Treated as a value: a fault makes a new one. */
export interface Answer {
  status: number;
  headers: AnswerHeaders;
  body: Uint8Array;
  /** The parts of a listing's page, for faults that change the page rather than its bytes. */
  page?: (() => PageParts) | undefined;
  /** 1 for the first page of a walk; only with `page`. */
  pageNumber?: number;
  /** Milliseconds to wait before anything is sent. */
  delayMs?: number;
  deliver?: Delivery | undefined;
}

export { RefusedRequest } from '../../../src/sandbox/records/record-json.ts';

/** An error answer in the form of RFC 9457. */
export function problem(status: number, detail: string, headers: AnswerHeaders = {}): Answer {
  const body = { type: 'about:blank', title: STATUS_CODES[status] ?? 'Unknown', status, detail };
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  };
}

/** A JSON answer; text and bytes are sent as they are. */
export function json(status: number, value: unknown, headers: AnswerHeaders = {}): Answer {
  const body = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
  return { status, headers: { 'content-type': 'application/json; charset=utf-8', ...headers }, body };
}

/** Smaller answers are not worth compressing. */
const SMALLEST_PACKED = 1_024;

/** Sends an answer the ordinary way; also what every delivery fault falls back on. */
export function sendPlain(wire: Wire, answer: Answer): void {
  writeHead(wire, answer);
  wire.response.end(hasBody(wire, answer) ? answer.body : undefined);
}

/** Status line and headers, with the length of the whole body even if less of it will be sent. */
export function writeHead(wire: Wire, answer: Answer, extra: AnswerHeaders = {}): void {
  const length = answer.status === 204 || answer.status === 304 ? {} : { 'content-length': String(answer.body.length) };
  wire.response.writeHead(answer.status, { ...length, ...answer.headers, ...extra });
}

/** Compresses a JSON answer if the client accepts gzip. */
export function gzipped(answer: Answer, acceptEncoding: string | string[] | undefined): Answer {
  const wanted = /\bgzip\b/.test(String(acceptEncoding ?? ''));
  if (!wanted || answer.body.length < SMALLEST_PACKED || answer.headers['content-encoding'] !== undefined)
    return answer;
  const body = gzipSync(answer.body, { level: 1 });
  return { ...answer, body, headers: { ...answer.headers, 'content-encoding': 'gzip', vary: 'accept-encoding' } };
}

function hasBody(wire: Wire, answer: Answer): boolean {
  return wire.request.method !== 'HEAD' && answer.status !== 204 && answer.status !== 304;
}
