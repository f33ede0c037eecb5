import { gzipSync } from 'node:zlib';
import type { Answer, AnswerHeaders, Wire } from './answer.ts';

/** Smaller answers are not worth compressing. */
const SMALLEST_PACKED = 1_024;

/** Compressed bodies, for as long as the plain ones are kept (cached pages). */
const packed = new WeakMap<Uint8Array, Uint8Array>();

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
  const body = packed.get(answer.body) ?? gzipSync(answer.body, { level: 1 });
  packed.set(answer.body, body);
  return { ...answer, body, headers: { ...answer.headers, 'content-encoding': 'gzip', vary: 'accept-encoding' } };
}

function hasBody(wire: Wire, answer: Answer): boolean {
  return wire.request.method !== 'HEAD' && answer.status !== 204 && answer.status !== 304;
}
