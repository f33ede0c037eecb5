import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { portOf } from '../faults/port-of.ts';
import { messageReader, type WireMessage } from './postgres-wire.ts';

/** A proxy before Postgres that loses connections. */
export interface FlakyProxy {
  /** The same address, through the proxy. */
  through: (address: string) => string;
  /** Connections that were cut. */
  cuts(): number;
}

/**
 * Passes on what comes, until `isCut` says of a message of the server that it gets lost, and its connection with it: the
 * server has done then what the client never hears of. Gone with the test.
 */
export async function flakyProxy(address: string, isCut: (message: WireMessage) => boolean): Promise<FlakyProxy> {
  const { hostname, port } = new URL(address);
  const open = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port), noDelay: true });
    const read = messageReader();
    pair(client, upstream, open);
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      for (const message of read(chunk)) {
        if (client.destroyed) return;
        if (isCut(message)) {
          cuts += 1;
          client.destroy();
        } else client.write(message.bytes);
      }
    });
  });
  const own = await portOf(server);
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return {
    through: (other) => other.replace(`${hostname}:${port}`, `127.0.0.1:${own}`),
    cuts: () => cuts,
  };
}

/** Neither outlives the other. */
function pair(one: Socket, other: Socket, open: Set<Socket>): void {
  for (const [socket, opposite] of [
    [one, other],
    [other, one],
  ] as const) {
    open.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      open.delete(socket);
      opposite.destroy();
    });
  }
}
