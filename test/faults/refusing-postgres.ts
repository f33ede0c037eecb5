import { createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { portOf } from './port-of.ts';

const CLEARTEXT = message('R', Buffer.from([0, 0, 0, 3]));
const SCRAM = message('R', Buffer.from('\0\0\0\nSCRAM-SHA-256\0\0'));
const SCRAM_CHALLENGE = message('R', Buffer.from('\0\0\0\vr=nonce,s=c2FsdA==,i=4096'));

/**
 * Asks for the password as it is, and refuses it with a message that gives it back: the worst that a server can do. Or
 * asks for the proof of it, as servers do by default.
 */
export async function startRefusingPostgres({ isScram = false }: { isScram?: boolean } = {}): Promise<{
  port: number;
  passwords: string[];
}> {
  const passwords: string[] = [];
  const server = createServer((socket) => {
    let isAsked = false;
    socket
      .on('error', () => undefined)
      .on('data', (bytes) => {
        if (!isAsked) socket.write(isScram ? SCRAM : CLEARTEXT);
        // Who has no password says nothing more; a real server waits for its authentication_timeout.
        else if (isScram) socket.end(SCRAM_CHALLENGE);
        else refuse(socket, passwords, bytes);
        isAsked = true;
      });
  });
  const port = await portOf(server);
  onTestFinished(() => {
    server.close();
  });
  return { port, passwords };
}

function refuse(socket: Socket, passwords: string[], bytes: Buffer): void {
  const password = bytes.subarray(5, -1).toString();
  passwords.push(password);
  const text = `password authentication failed for user "app" with ${password}`;
  const fields = ['SFATAL', 'VFATAL', 'C28P01', `M${text}`, `D${JSON.stringify({ password })}`];
  socket.end(message('E', Buffer.from(`${fields.join('\0')}\0\0`)));
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
