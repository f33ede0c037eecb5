import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { z } from 'zod';
import { webhookVectors } from '../../support/corpora.ts';
import type { Random } from '../../support/random.ts';

interface Signed {
  headers: Record<string, string>;
  body: string;
}

const vectorsSchema = z.object({
  body: z.string(),
  generated: z.array(
    z.object({ headers: z.record(z.string(), z.string()).default({}), bodyOverride: z.string().optional() }),
  ),
});

/** Header sets and bodies of signed deliveries of all kinds of senders. */
export function vectorDeliveries(): Signed[] {
  const { body, generated } = vectorsSchema.parse(webhookVectors());
  return generated.map(({ headers, bodyOverride }) => ({ headers, body: bodyOverride ?? body }));
}

/** A way to spoil the bytes of a request. */
type Mutation = (bytes: Buffer, random: Random) => Buffer;

const MUTATIONS: readonly Mutation[] = [
  (bytes) => bytes,
  (bytes, random) => flipped(bytes, random, 1),
  (bytes, random) => flipped(bytes, random, 20),
  (bytes, random) => bytes.subarray(0, random.whole(1, bytes.length)),
  (bytes, random) => Buffer.concat([bytes, randomBytes(random, random.whole(1, 400))]),
  (bytes, random) => spliced(bytes, random, randomBytes(random, random.whole(1, 60))),
  (bytes, random) => spliced(bytes, random, Buffer.from('\r\n')),
  (bytes, random) => spliced(bytes, random, Buffer.from('\0')),
  (bytes, random) => spliced(bytes, random, bytes.subarray(0, random.whole(1, bytes.length))),
  (_, random) => randomBytes(random, random.whole(1, 2_000)),
];

/** The request as bytes, and spoiled in one of many ways. */
export function malformed(deliveries: readonly Signed[], random: Random): Buffer {
  const { headers, body } = random.pick(deliveries);
  const all = {
    host: 'x',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const bytes = Buffer.from(`POST /webhooks/blog HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
  return random.pick(MUTATIONS)(bytes, random);
}

function flipped(bytes: Buffer, random: Random, times: number): Buffer {
  const copy = Buffer.from(bytes);
  for (let flip = 0; flip < times; flip += 1) copy[random.whole(0, copy.length - 1)] = random.whole(0, 255);
  return copy;
}

function spliced(bytes: Buffer, random: Random, what: Buffer): Buffer {
  const at = random.whole(0, bytes.length);
  return Buffer.concat([bytes.subarray(0, at), what, bytes.subarray(at)]);
}

function randomBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random.whole(0, 255)));
}

interface FloodPlan {
  count: number;
  connections: number;
  patienceMs: number;
}

interface FloodTally {
  sent: number;
  /** Answers by status; 0 for a request that got none before its connection was closed or given up. */
  statuses: Record<number, number>;
}

/** How long an answer to what may be half a request is waited for. */
export const HALF_MS = 40;

/** Sends `count` malformed requests over so many connections, each one after the answer to the one before. */
export async function flood(
  port: number,
  { count, connections, patienceMs }: FloodPlan,
  next: () => Buffer,
): Promise<FloodTally> {
  const tally: FloodTally = { sent: 0, statuses: {} };
  const workers = Array.from({ length: connections }, async () => {
    let socket: Socket | null = null;
    while (tally.sent < count) {
      tally.sent += 1;
      if (socket === null || socket.destroyed || !socket.writable) socket = await open(port);
      const { status, isLast } = await ask(socket, next(), patienceMs);
      tally.statuses[status] = (tally.statuses[status] ?? 0) + 1;
      // What is left of a spoiled request would be the beginning of the next one.
      if (status !== 401 || isLast) socket.destroy();
    }
    socket?.destroy();
  });
  await Promise.all(workers);
  return tally;
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => undefined);
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

function ask(socket: Socket, bytes: Buffer, patienceMs: number): Promise<{ status: number; isLast: boolean }> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; isLast: boolean }>();
  const end = (status: number, isLast = true): void => {
    clearTimeout(timer);
    socket.off('data', onData).off('close', onClose);
    resolve({ status, isLast });
  };
  const onData = (chunk: Buffer): void => {
    const text = chunk.toString('latin1');
    end(Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? -1), text.includes('Connection: close'));
  };
  const onClose = (): void => end(0);
  const timer = setTimeout(onClose, patienceMs);
  socket.on('data', onData).on('close', onClose);
  socket.write(bytes);
  return promise;
}
