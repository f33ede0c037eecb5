import { setImmediate as immediate } from 'node:timers/promises';
import { type Answer, type Delivery, type Wire, sendPlain, writeHead } from '../answer.ts';
import { type Fault, TEXT_OR_BYTES, fault } from './fault.ts';

/** Faults of the connection: the right answer, delivered badly or not at all. Negative `after` counts from the end. */
export const WIRE_FAULTS = {
  reset: onWire(
    'RST after `after` bytes of the body (half of it when 0; -1 before the headers)',
    { after: 0 },
    ({ after }) =>
      (wire, answer) => {
        const socket = wire.response.socket;
        if (after === -1) socket?.resetAndDestroy();
        else writePart(wire, answer, after, () => socket?.resetAndDestroy());
      },
  ),
  fin: onWire(
    'FIN after `after` bytes of the body (half of it when 0), `chunked` without the last chunk',
    { after: 0, chunked: 0 },
    ({ after, chunked }) =>
      (wire, answer) => {
        if (chunked === 0) writePart(wire, answer, after, () => wire.response.socket?.end());
        else writeChunk(wire, answer, after);
      },
  ),
  silence: unanswered('no answer; closed after `ms` unless that is 0', { ms: 0 }, ({ ms }) => async (wire) => {
    if (ms === 0) return;
    await wire.clock.sleep(ms, wire.gone);
    wire.response.socket?.destroy();
  }),
  drip: onWire('`bytes` of the body every `ms`', { bytes: 1, ms: 1_000 }, ({ bytes, ms }) => async (wire, answer) => {
    await inPieces(wire, answer, bytes, () => wire.clock.sleep(ms, wire.gone));
  }),
  slice: onWire('the body in TCP segments of `bytes`', { bytes: 1 }, ({ bytes }) => async (wire, answer) => {
    wire.response.socket?.setNoDelay(true);
    await inPieces(wire, answer, bytes, () => immediate());
  }),
  'close-after': onWire(
    'closes the kept-alive connection `ms` after the answer, without having said so',
    { ms: 0 },
    ({ ms }) =>
      (wire, answer) => {
        const socket = wire.response.socket;
        wire.response.once('finish', () => setTimeout(() => socket?.destroySoon(), ms));
        sendPlain(wire, answer);
      },
  ),
  raw: unanswered(
    'these bytes instead of an HTTP answer, then FIN unless `keep` is 1',
    { text: TEXT_OR_BYTES, keep: 0 },
    ({ text, keep }) =>
      (wire) => {
        const socket = wire.response.socket;
        socket?.write(text);
        if (keep === 0) socket?.end();
      },
  ),
} satisfies Record<string, Fault>;

function onWire<P extends Record<string, string | number | Uint8Array>>(
  about: string,
  defaults: P,
  delivery: (parameters: Parameters<Parameters<typeof fault<P>>[2]>[1]) => Delivery,
): Fault {
  return fault(about, defaults, (answer, parameters) => ({ ...answer, deliver: delivery(parameters) }));
}

/** Logged with status 0: the client never sees one. */
function unanswered<P extends Record<string, string | number | Uint8Array>>(
  about: string,
  defaults: P,
  delivery: Parameters<typeof onWire<P>>[2],
): Fault {
  return fault(about, defaults, (answer, parameters) => ({ ...answer, status: 0, deliver: delivery(parameters) }));
}

/** The first part of a body: so many bytes, half of it by default, never more than all. */
function part(body: Uint8Array, after: number): Uint8Array {
  return body.subarray(0, after === 0 ? Math.floor(body.length / 2) : after);
}

function writePart(wire: Wire, answer: Answer, after: number, then: () => void): void {
  writeHead(wire, answer);
  const bytes = part(answer.body, after);
  if (bytes.length > 0) {
    wire.response.write(bytes, then);
    return;
  }
  wire.response.flushHeaders();
  setImmediate(then);
}

function writeChunk(wire: Wire, answer: Answer, after: number): void {
  wire.response.writeHead(answer.status, { ...answer.headers, 'transfer-encoding': 'chunked' });
  wire.response.write(part(answer.body, after), () => wire.response.socket?.end());
}

async function inPieces(wire: Wire, answer: Answer, size: number, pause: () => Promise<unknown>): Promise<void> {
  writeHead(wire, answer);
  wire.response.flushHeaders();
  for (let start = 0; start < answer.body.length && !wire.gone.aborted; start += size) {
    await pause();
    wire.response.write(answer.body.subarray(start, start + size));
  }
  wire.response.end();
}
