import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { ReceiverLimits } from '../../../src/server/receiver/setup.ts';
import { startReceiver } from '../../../src/server/receiver/start-receiver.ts';

const PIECE = 65_536;

interface Streamed {
  url: string;
  /** Pieces that were asked for so far. */
  asked: () => number;
  streams: Readable[];
}

/** Pages of so many pieces each; with `breaks`, the last one never comes. */
async function streaming(pieces: number, limits: Partial<ReceiverLimits> = {}, breaks = false): Promise<Streamed> {
  let asked = 0;
  const streams: Readable[] = [];
  const bytes = randomBytes(PIECE);
  const page = async (): Promise<Response> => {
    const stream = Readable.from(
      (async function* made() {
        for (let at = 0; at < pieces; at += 1) {
          if (breaks && at === pieces - 1) throw new Error('it broke off');
          asked += 1;
          yield bytes;
        }
      })(),
      { objectMode: false, highWaterMark: 1 },
    );
    streams.push(stream);
    return new Response(stream, { headers: { 'content-length': String(pieces * PIECE) } });
  };
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [],
    clock: systemClock,
    pages: page,
    onArrival: () => undefined,
    onAnswer: () => undefined,
    onNote: () => undefined,
    limits,
  });
  onTestFinished(() => receiver.close());
  return { url: receiver.url, asked: () => asked, streams };
}

it('a long body comes whole, and no more of it is read than its reader takes', async () => {
  const { url, asked } = await streaming(400);
  const answer = await fetch(`${url}/files`);
  const hash = createHash('sha256');
  let length = 0;
  for await (const piece of answer.body ?? []) {
    length += piece.length;
    hash.update(piece);
  }
  expect([answer.status, length, asked()]).toEqual([200, 400 * PIECE, 400]);
});

it('a reader that takes nothing is let go, with what was read for it', { timeout: 20_000 }, async () => {
  const { url, asked, streams } = await streaming(4_000, { idleMs: 500 });
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  socket.pause();
  socket.write('GET /files HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await expect.poll(() => streams[0]?.destroyed, { timeout: 15_000 }).toBe(true);
  // What the kernel and the sockets take in, and far from all of it.
  expect(asked()).toBeLessThan(2_000);
  socket.resume();
  await once(socket, 'close');
});

it('one that breaks off ends with its connection', async () => {
  const { url, streams } = await streaming(5, {}, true);
  const answer = await fetch(`${url}/files`);
  await expect(answer.arrayBuffer()).rejects.toThrow('terminated');
  await expect.poll(() => streams[0]?.destroyed).toBe(true);
});
