import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import { LAB } from './lab.ts';

/** Where the scripts tell the services to send their webhooks. */
const HOOK_PORT = 4199;

/** Takes the deliveries of the real services, byte by byte, to another address; what came is counted. */
export async function forwardHooks(target: string): Promise<{ statuses: number[] }> {
  stopSink();
  const statuses: number[] = [];
  const server = createServer((incoming, outgoing) => {
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.on('end', () => {
      const { host: _, connection: __, 'content-length': ___, ...headers } = incoming.headers;
      fetch(target, { method: 'POST', headers: headers as Record<string, string>, body: Buffer.concat(parts) })
        .then(({ status }) => {
          statuses.push(status);
          outgoing.writeHead(status).end();
        })
        .catch(() => outgoing.writeHead(503).end());
    });
  });
  await new Promise<void>((resolve) => server.listen(HOOK_PORT, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { statuses };
}

/** The scripts' own receiver, which only notes down what comes, has the port. */
function stopSink(): void {
  try {
    process.kill(-Number(readFileSync(`${LAB}/_sink/${HOOK_PORT}/pid`, 'utf8')), 'SIGKILL');
    spawnSync('sleep', ['0.3']);
  } catch (error) {
    // None is running.
    if (!(error instanceof Error && 'code' in error && ['ENOENT', 'ESRCH'].includes(String(error.code)))) throw error;
  }
}
