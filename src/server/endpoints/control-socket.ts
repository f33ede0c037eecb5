import { chmodSync, lstatSync, mkdirSync, unlinkSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isMainThread } from 'node:worker_threads';
import type { Logger } from 'pino';
import { messageOf } from '../../model/errors.ts';
import type { Pages } from './pages.ts';
import { toRequest } from '../receiver/requests.ts';
import { closeServer } from '../receiver/server.ts';

export interface ControlSocketOptions {
  path: string;
  pages: Pages;
  log: Logger;
}

/** A request names a few thousand ids at most. */
const LONGEST_REQUEST = 1_000_000;
/** A client that says nothing for so long is none. */
const ASK_MS = 10_000;
const MOST_CLIENTS = 256;
/** Syncs have ended by then, and their ends are on their way. */
const CLOSE_MS = 2_000;
const PROBE_MS = 2_000;

/**
 * Serves the pages on a socket through which commands on this machine tell this process what to do: for its own user
 * alone, by the rights of the file. One that a killed process has left is replaced, that of a living one is not: then,
 * and where none can be made, that is logged and null returned.
 */
export async function openControlSocket({
  path,
  pages,
  log,
}: ControlSocketOptions): Promise<{ close(): Promise<void> } | null> {
  const limits = { headersTimeout: ASK_MS, requestTimeout: ASK_MS, connectionsCheckingInterval: 1_000 };
  const server = createServer(limits, async (request, response) => {
    const bindings = { client: 'control socket', isLocal: true, readBody: () => readBody(request) };
    try {
      const made = await pages(toRequest(request), bindings);
      response.writeHead(made.status, Object.fromEntries(made.headers));
      await (made.body === null ? response.end() : pipeline(made.body, response));
    } catch {
      // The client has gone; what it asked for goes on.
      response.destroy();
    }
  });
  server.maxConnections = MOST_CLIENTS;
  try {
    await listenAlone(server, path);
  } catch (error) {
    const hint = 'set `control` to a path of its own, or to null; commands cannot ask this process meanwhile';
    log.warn({ hint, control: path }, `there is no control socket: ${messageOf(error)}`);
    return null;
  }
  // An error of the listening socket takes the door away, not the work.
  server.on('error', (error) => log.warn({ error }, `the control socket failed: ${messageOf(error)}`));
  return { close: () => closeServer(server, CLOSE_MS) };
}

/** Null for what is too long. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= LONGEST_REQUEST) chunks.push(chunk);
  }
  return bytes > LONGEST_REQUEST ? null : Buffer.concat(chunks).toString();
}

/** Throws if the path cannot be had: another process listens there, or something else stands there. */
async function listenAlone(server: Server, path: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  try {
    await listen(server, path);
  } catch (error) {
    if (!isCode(error, 'EADDRINUSE')) throw error;
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isSocket() === false) throw new Error(`${path} is there and is no socket`, { cause: error });
    if (await isLiving(path)) throw new Error(`another process listens on ${path}`, { cause: error });
    // The very one that nobody listens on, and not one that was made meanwhile.
    if (lstatSync(path, { throwIfNoEntry: false })?.ino === found?.ino && found !== undefined) unlinkSync(path);
    await listen(server, path);
  }
}

/** The file has its rights from its first moment on: it is made within the call. */
async function listen(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  const usual = isMainThread ? process.umask(0o177) : null;
  try {
    server.listen(path, resolve);
  } finally {
    if (usual !== null) process.umask(usual);
  }
  try {
    await promise;
    chmodSync(path, 0o600);
  } finally {
    server.off('error', reject);
  }
}

/** True unless nobody listens there. */
async function isLiving(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once('connect', () => resolve(true));
  socket.once('error', (error) => resolve(!isCode(error, 'ECONNREFUSED') && !isCode(error, 'ENOENT')));
  socket.setTimeout(PROBE_MS, () => resolve(true));
  return promise.finally(() => socket.destroy());
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
