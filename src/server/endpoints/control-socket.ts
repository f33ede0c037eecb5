// Opens the Unix socket through which commands on this machine reach a running `serve`.
import { chmodSync, lstatSync, mkdirSync, unlinkSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { dirname } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { Logger } from 'pino';
import { messageOf } from '../../model/errors.ts';
import { type Control, controlBodySchema, errorAnswer, refusedAnswer } from '../controls/control-request.ts';
import { connectionError, CONTROL_PATH } from '../controls/serve-connection.ts';
import { closeServer } from '../receiver/server.ts';

export interface ControlSocketOptions {
  path: string;
  control: Control;
  log: Logger;
}

/** A request names a few thousand ids at most. */
const MAX_REQUEST_BYTES = 1_000_000;
const REQUEST_TIMEOUT_MS = 10_000;
const MAX_CLIENTS = 256;
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * Takes requests of commands on this machine from a socket; the mode of the file admits only its own user. Replaces the
 * socket of a process that was killed. If another process listens there, or the socket cannot be created, logs that and
 * returns null.
 */
export async function openControlSocket({
  path,
  control,
  log,
}: ControlSocketOptions): Promise<{ close(): Promise<void> } | null> {
  const limits = {
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: 1_000,
  };
  const server = createServer(limits, (request, response) => {
    // The client may disconnect; what it requested continues.
    response.on('error', () => undefined);
    answerCommand(control, request, response).catch(() => response.destroy());
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

/** The response is a line with the answer, and one more when the syncs that the command has started have ended. */
async function answerCommand(control: Control, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST' || request.url !== CONTROL_PATH) return void response.writeHead(404).end();
  const { data, error } = controlBodySchema.safeParse(await readJson(request));
  if (data === undefined) {
    const faults = error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
    const hint = 'use the commands of the same version of content-sync as the running serve';
    const answer = refusedAnswer('serve_missing', `not understood: ${faults.join('; ').slice(0, 500)}`, hint);
    return void response.writeHead(400).end(toLine(answer));
  }
  const { answer, report } = await control(data.request, data.by);
  response.writeHead(answer.done ? 200 : 409, { 'content-type': 'application/x-ndjson' }).write(toLine(answer));
  const end = await report?.then(
    (ended) => ({ report: ended }),
    (reason: unknown) => ({ failed: errorAnswer(reason) }),
  );
  response.end(end && toLine(end));
}

function toLine(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** Undefined if the body is too long, or is not JSON. */
async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= MAX_REQUEST_BYTES) chunks.push(chunk);
  }
  try {
    return bytes > MAX_REQUEST_BYTES ? undefined : JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    return undefined;
  }
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
