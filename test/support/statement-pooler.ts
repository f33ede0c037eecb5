import { connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { portOf } from '../faults/port-of.ts';
import { messageReader, stateIn, wireMessage } from './postgres-wire.ts';

/** What PgBouncer says, and then hangs up, as soon as a client is within a transaction (`pool_mode = statement`). */
const REFUSAL = wireMessage(
  'E',
  'SFATAL',
  'VFATAL',
  'C08P01',
  'Mtransaction blocks not allowed in statement pooling mode',
  '',
);

/** A pooler in statement mode before this server: the same address, through it. Gone with the test. */
export async function statementPooler(address: string): Promise<string> {
  const { hostname, port } = new URL(address);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const backend = connect({ host: hostname, port: Number(port) });
    for (const socket of [client, backend]) {
      open.add(socket.on('error', () => undefined).on('close', () => client.destroy()));
    }
    client.on('close', () => backend.destroy()).pipe(backend);
    const read = messageReader();
    backend.on('data', (chunk) => {
      const messages = read(chunk);
      const isWithin = messages.some((message) => (stateIn(message) ?? 'I') !== 'I');
      const told = messages.filter((message) => (stateIn(message) ?? 'I') === 'I').map(({ bytes }) => bytes);
      client.write(Buffer.concat(told));
      if (isWithin) client.end(REFUSAL);
    });
  });
  const own = await portOf(server);
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return address.replace(`${hostname}:${port}`, `127.0.0.1:${own}`);
}
