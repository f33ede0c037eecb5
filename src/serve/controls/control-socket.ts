import { chmodSync, lstatSync, mkdirSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { sleepOrAbort, waitAtMost } from '../../model/waiting.ts';
import { refused } from './answers.ts';
import { askedSchema, CONTROL_VERSION, firstLine, LineFault, writeLine } from './control-lines.ts';
import type { Controls } from './create-controls.ts';

export interface ControlSocketOptions {
  path: string;
  follow: Controls['follow'];
  clock: Clock;
  log: Logger;
}

/** A request names a few thousand ids at most. */
const LONGEST_REQUEST = 1_000_000;
/** A client that says nothing for so long is none. */
const ASK_MS = 10_000;
const MOST_CLIENTS = 256;
/** To a client that does not read, news are not told. */
const MOST_UNREAD = 1_000_000;
/** Walks have ended by then, and their ends are on their way. */
const CLOSE_MS = 2_000;
const PROBE_MS = 2_000;

/**
 * Opens the socket through which commands on this machine tell this process what to do: for its own user alone, by the
 * rights of the file. One that a killed process has left is replaced, that of a living one is not: then, and where none
 * can be made, that is logged and null returned.
 */
export async function openControlSocket(options: ControlSocketOptions): Promise<{ close(): Promise<void> } | null> {
  const { path, log, clock } = options;
  const clients = new Map<Socket, Promise<void>>();
  const closing = new AbortController();
  const server = createServer((socket) => {
    const served = serveClient(options, socket, closing.signal).finally(() => clients.delete(socket));
    clients.set(socket, served);
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
  return {
    close: async () => {
      closing.abort();
      server.close();
      await waitAtMost(clock, CLOSE_MS, Promise.all(clients.values()));
      for (const socket of clients.keys()) socket.destroy();
    },
  };
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
  server.once('listening', resolve);
  const usual = isMainThread ? process.umask(0o177) : null;
  try {
    server.listen(path);
  } finally {
    if (usual !== null) process.umask(usual);
  }
  try {
    await promise;
    chmodSync(path, 0o600);
  } finally {
    server.removeAllListeners('error').removeAllListeners('listening');
  }
}

/** True unless nobody listens there. */
async function isLiving(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once('connect', () => resolve(true));
  socket.once('error', (error) => resolve(!isCode(error, 'ECONNREFUSED') && !isCode(error, 'ENOENT')));
  socket.setTimeout(PROBE_MS, () => resolve(true));
  const isThere = await promise;
  socket.destroy();
  return isThere;
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** One request per connection. Never rejects. */
async function serveClient(options: ControlSocketOptions, socket: Socket, closing: AbortSignal): Promise<void> {
  const { clock, log } = options;
  const gone = new AbortController();
  socket.on('close', () => gone.abort());
  socket.on('error', () => gone.abort());
  const late = new AbortController();
  const until = AbortSignal.any([late.signal, gone.signal, closing]);
  const hangUp = async (): Promise<void> => {
    await sleepOrAbort(clock, ASK_MS, until);
    if (!late.signal.aborted) socket.destroy();
  };
  void hangUp();
  try {
    const asked = await readAsked(socket);
    late.abort();
    if (asked !== null) await answerAsked(options, socket, asked, gone.signal);
  } catch (error) {
    const why = error instanceof SyncError || error instanceof LineFault ? messageOf(error) : null;
    if (why !== null) {
      log.warn({ reason: why }, 'what came in on the control socket is no request');
      const hint = 'use the commands of the same version of content-sync as the running serve';
      writeLine(socket, { end: { answer: refused('serve_version', `not understood: ${why}`, hint), report: null } });
    }
  } finally {
    late.abort();
    socket.end();
  }
}

type Asked = ReturnType<typeof askedSchema.parse>;

/** Null if the client says nothing. Throws `LineFault` and `SyncError`. */
async function readAsked(socket: Socket): Promise<Asked | null> {
  const value = await firstLine(socket, LONGEST_REQUEST);
  if (value === null) return null;
  const { data, error } = askedSchema.safeParse(value);
  if (data !== undefined) return data;
  const fields = error.issues.map(({ path, message }) => `${path.join('.') || 'the line'}: ${message}`);
  throw new SyncError('serve_version', `${fields.join('; ').slice(0, 500)} (this is version ${CONTROL_VERSION})`, {
    recovery: 'stop',
  });
}

async function answerAsked({ follow }: ControlSocketOptions, socket: Socket, asked: Asked, signal: AbortSignal) {
  const end = await follow(
    asked.request,
    { via: 'command', by: asked.by },
    {
      answered: (answer) => writeLine(socket, { answer }),
      news: (news) => {
        if (socket.writableLength < MOST_UNREAD) writeLine(socket, { news });
      },
      signal,
    },
  );
  writeLine(socket, { end });
}
