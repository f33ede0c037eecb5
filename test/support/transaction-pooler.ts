import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { portOf } from '../faults/port-of.ts';
import { int32, messageReader, stateIn, wireMessage } from './postgres-wire.ts';

/** A pooler in transaction mode, as PgBouncer is. */
export interface TransactionPooler {
  /** The same address, through the pooler. */
  through: (address: string) => string;
  /** How many transactions it has lent a connection to. */
  lent(): number;
}

/** A connection to the server, which the pooler lends. */
interface Backend {
  socket: Socket;
  /** Whoever gets what the server says. */
  listener: (chunk: Buffer) => void;
}

const PROTOCOL = 196_608;
const SSL_REQUEST = 80_877_103;
const PARAMETERS = {
  server_version: '18.0',
  client_encoding: 'UTF8',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  integer_datetimes: 'on',
  standard_conforming_strings: 'on',
} as const;

/**
 * Answers the clients by itself and lends them one of `size` connections for one transaction each: the next one gets
 * another connection, and nothing of a session is left on it. Gone with the test.
 */
export async function transactionPooler(address: string, size: number): Promise<TransactionPooler> {
  const { hostname, port, pathname } = new URL(address);
  const place = { host: hostname, port: Number(port), database: pathname.slice(1) };
  const backends = await Promise.all(Array.from({ length: size }, () => openBackend(place)));
  const free = [...backends];
  const queue: ((backend: Backend) => void)[] = [];
  let lent = 0;
  const lending: Lending = {
    take: async () => {
      lent += 1;
      return free.shift() ?? new Promise((resolve) => queue.push(resolve));
    },
    giveBack: async (backend) => {
      // What a session left behind would be gone on another connection: so it is gone on this one.
      await ask(backend, wireMessage('Q', 'DISCARD ALL'));
      const next = queue.shift();
      if (next === undefined) free.push(backend);
      else next(backend);
    },
  };
  const server = createServer((client) => serveClient(client, lending));
  const own = await portOf(server);
  onTestFinished(() => {
    server.close();
    for (const { socket } of backends) socket.destroy();
  });
  return {
    through: (other) => other.replace(`${hostname}:${port}`, `127.0.0.1:${own}`),
    lent: () => lent,
  };
}

interface Lending {
  take(): Promise<Backend>;
  giveBack(backend: Backend): Promise<void>;
}

/** One client: its messages wait until it has a connection, which it keeps until the server says that it is idle. */
function serveClient(client: Socket, lending: Lending): void {
  client.setNoDelay(true).on('error', () => undefined);
  let backend: Backend | null = null;
  let isTaking = false;
  let waiting: Buffer[] = [];
  const read = messageReader();
  const lend = async (): Promise<void> => {
    isTaking = true;
    backend = await lending.take();
    isTaking = false;
    const answers = messageReader();
    const held = backend;
    held.listener = (chunk) => {
      client.write(chunk);
      if (answers(chunk).some((message) => stateIn(message) === 'I')) {
        backend = null;
        void lending.giveBack(held);
      }
    };
    for (const bytes of waiting) held.socket.write(bytes);
    waiting = [];
  };
  const forward = (chunk: Buffer): void => {
    for (const { letter, bytes } of read(chunk)) {
      if (letter === 'X') client.end();
      else if (backend !== null) backend.socket.write(bytes);
      else {
        waiting.push(bytes);
        if (!isTaking) void lend();
      }
    }
  };
  // Who leaves in the middle of a transaction takes the connection along.
  client.on('close', () => backend?.socket.destroy());
  startUp(client, forward);
}

/** The first packet has no letter; it may ask for TLS before. Everybody is trusted. */
function startUp(client: Socket, forward: (chunk: Buffer) => void): void {
  const greet = (packet: Buffer): void => {
    if (packet.readInt32BE(4) === SSL_REQUEST) client.once('data', greet).write('N');
    else {
      client.on('data', forward);
      const parameters = Object.entries(PARAMETERS).map(([name, value]) => wireMessage('S', name, value));
      const key = wireMessage('K', int32(1), int32(1));
      client.write(Buffer.concat([wireMessage('R', int32(0)), ...parameters, key, wireMessage('Z', Buffer.from('I'))]));
    }
  };
  client.once('data', greet);
}

async function openBackend(place: { host: string; port: number; database: string }): Promise<Backend> {
  const socket = connect({ ...place, noDelay: true });
  const backend: Backend = { socket, listener: () => undefined };
  socket.on('error', () => undefined).on('data', (chunk) => backend.listener(chunk));
  await once(socket, 'connect');
  const fields = ['user', 'postgres', 'database', place.database, ''].map((text) => `${text}\0`).join('');
  const body = Buffer.concat([int32(PROTOCOL), Buffer.from(fields)]);
  await ask(backend, Buffer.concat([int32(4 + body.length), body]));
  return backend;
}

/** Sends it and waits until the server is idle again. */
async function ask(backend: Backend, bytes: Buffer): Promise<void> {
  const read = messageReader();
  await new Promise<void>((resolve) => {
    backend.listener = (chunk) => {
      if (read(chunk).some((message) => stateIn(message) === 'I')) resolve();
    };
    backend.socket.write(bytes);
  });
}
