import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { request } from 'undici';
import { onTestFinished } from 'vitest';
import { LAB } from './lab.ts';

/** Where the scripts tell the services to send their webhooks. */
const HOOK_PORT = 4199;

/** Takes the deliveries of the real services, byte by byte, to another address; what came is counted. */
export async function forwardHooks(target: string): Promise<{ statuses: number[] }> {
  stopSink();
  const statuses: number[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const body = await buffer(incoming);
    const status = await forward(target, incoming.headers, body).catch(() => 503);
    statuses.push(status);
    outgoing.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(HOOK_PORT, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { statuses };
}

const OF_THE_CONNECTION: ReadonlySet<string> = new Set(['host', 'connection', 'content-length', 'transfer-encoding']);

async function forward(target: string, headers: IncomingHttpHeaders, body: Buffer): Promise<number> {
  const kept = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
  const sent = kept.map(([name, value]): [string, string] => [name, String(value)]);
  const { statusCode, body: answer } = await request(target, {
    method: 'POST',
    headers: Object.fromEntries(sent),
    body,
  });
  await answer.dump();
  return statusCode;
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
