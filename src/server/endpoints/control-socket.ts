// Opens the Unix socket through which commands on this machine reach a running `serve`.
import { chmodSync, lstatSync, mkdirSync, unlinkSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { dirname } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { Logger } from 'pino';
import { messageOf } from '../../model/errors.ts';
import { connectionError } from '../controls/serve-connection.ts';
import type { Pages } from './pages.ts';
import { sendResponse, toRequest } from '../receiver/requests.ts';
import { closeServer } from '../receiver/server.ts';

export interface ControlSocketOptions {
  path: string;
  pages: Pages;
  log: Logger;
}

/** A request names a few thousand ids at most. */
const MAX_REQUEST_BYTES = 1_000_000;
const REQUEST_TIMEOUT_MS = 10_000;
const MAX_CLIENTS = 256;
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Serves the pages on a socket through which commands on this machine control this process; the mode of the file admits
 * only its own user. Replaces the socket of a process that was killed. If another process listens there, or the socket
 * cannot be created, logs that and returns null.
 */
export async function openControlSocket({
  path,
  pages,
  log,
}: ControlSocketOptions): Promise<{ close(): Promise<void> } | null> {
  const limits = {
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: 1_000,
  };
  const server = createServer(limits, async (request, response) => {
    try {
      await sendResponse(await pages(toRequest(request), { readCommand: () => readBody(request) }), response);
    } catch {
      // The client has disconnected; what it requested continues.
      response.destroy();
    }
  });
  server.maxConnections = MAX_CLIENTS;
  try {
    await listenAlone(server, path);
  } catch (error) {
    const hint = 'set `control` to a path of its own, or to null; commands cannot ask this process meanwhile';
    log.warn({ hint, control: path }, `there is no control socket: ${messageOf(error)}`);
    return null;
  }
  server.on('error', (error) => log.warn({ error }, `the control socket failed: ${messageOf(error)}`));
  return { close: () => closeServer(server, CLOSE_TIMEOUT_MS) };
}

/** Returns null if the body is too long. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= MAX_REQUEST_BYTES) chunks.push(chunk);
  }
  return bytes > MAX_REQUEST_BYTES ? null : Buffer.concat(chunks).toString();
}

/** Throws if another process listens on the path, or it is another kind of file. */
async function listenAlone(server: Server, path: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  try {
    await listen(server, path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isSocket() === false) throw new Error(`${path} is there and is no socket`, { cause: error });
    const failure = (await connectionError(path)) ?? '';
    // Any other error may be that of a busy process.
    if (!['ECONNREFUSED', 'ENOENT'].includes(failure)) {
      throw new Error(`another process listens on ${path}`, { cause: error });
    }
    // Another process may have replaced it meanwhile.
    if (lstatSync(path, { throwIfNoEntry: false })?.ino === found?.ino && found !== undefined) unlinkSync(path);
    await listen(server, path);
  }
}

/** `listen` creates the file within the call, so the umask applies to it. */
async function listen(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  const usualMask = isMainThread ? process.umask(0o177) : null;
  try {
    server.listen(path, resolve);
  } finally {
    if (usualMask !== null) process.umask(usualMask);
  }
  try {
    await promise;
    chmodSync(path, 0o600);
  } finally {
    server.off('error', reject);
  }
}
