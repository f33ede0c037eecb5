import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** What a server said to bytes that were sent as they are, and whether it closed the connection. */
export interface Said {
  text: string;
  closed: boolean;
}

/** Status lines of all answers in what a server said. */
export function statuses({ text }: Said): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}

/** A connection that is cut when the test is over. */
export function openSocket(port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Sends bytes and listens until the server closes, or has said nothing for `quietMs`. */
export async function say(port: number, bytes: string | Buffer, quietMs = 250): Promise<Said> {
  const socket = openSocket(port);
  socket.write(bytes);
  return listenTo(socket, quietMs);
}

export function listenTo(socket: Socket, quietMs: number): Promise<Said> {
  const { promise, resolve } = Promise.withResolvers<Said>();
  let text = '';
  const end = (closed: boolean): void => {
    clearTimeout(timer);
    resolve({ text, closed });
  };
  let timer = setTimeout(() => end(false), quietMs);
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    clearTimeout(timer);
    timer = setTimeout(() => end(false), quietMs);
  });
  socket.on('close', () => end(true));
  return promise;
}
