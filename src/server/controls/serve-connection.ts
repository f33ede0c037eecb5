// Sends control requests to a running `serve` on this machine, through its socket.
import { lstatSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { Client, errors } from 'undici';
import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { RunReport } from '../../sync/report.ts';
import {
  type ControlAnswer,
  type controlBodySchema,
  type ControlRequest,
  type ControlResult,
  toSyncError,
} from './control-request.ts';

export interface ServeConnection {
  /**
   * Sends a request. If the signal is aborted, this and the report reject with its reason, and the syncs continue. Both
   * throw `SyncError('serve_missing')` if the process ends before.
   */
  send(request: ControlRequest, signal: AbortSignal): Promise<ControlResult>;
}

/** An answer as another process, of this version or another one, has written it. */
const answerSchema = z.looseObject({
  done: z.boolean(),
  message: z.string(),
  hint: z.string().nullable(),
  code: z.string().optional(),
});
const reportSchema = z.custom<RunReport>((value) => reportShape.safeParse(value).success);
const reportShape = z.object({
  source: z.string(),
  run_id: z.string(),
  status: z.string(),
  resources: z.array(z.object({ resource: z.string(), status: z.string() })),
});
const endSchema = z.union([z.object({ report: reportSchema }), z.object({ failed: answerSchema })]);

/** Connects to the control socket at this path; null if no process listens. Throws `SyncError` if it is another user's. */
export async function findSocket(path: string, by: string | null): Promise<ServeConnection | null> {
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined) return null;
  const error = isTrusted(path, owner) ? await connectionError(path) : 'EACCES';
  if (error === 'EACCES' || error === 'EPERM') throw denied(path);
  if (error !== null) return null;
  return { send: (request, signal) => sendToSocket(path, { content_sync: 2, request, by }, signal) };
}

/** Root may control the `serve` of another user, in a folder where no one else could have made the socket. */
function isTrusted(path: string, owner: number): boolean {
  const user = process.getuid?.() ?? owner;
  if (owner === user) return true;
  const folder = statSync(dirname(path));
  return user === 0 && folder.uid === owner && (folder.mode & 0o022) === 0;
}

/** The path on the socket to which commands send their requests, in JSON. */
export const CONTROL_PATH = '/control';

const CONNECT_TIMEOUT_MS = 2_000;

/** Connects to a socket and closes the connection: null if a process listens there, else the code of the error. */
export async function connectionError(path: string): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connect(path);
  socket.once('connect', () => resolve(null));
  socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
  socket.setTimeout(CONNECT_TIMEOUT_MS, () => resolve('ETIMEDOUT'));
  return promise.finally(() => socket.destroy());
}

/** The answer is a line of JSON; the end of the syncs is another one. */
async function sendToSocket(
  path: string,
  sent: z.input<typeof controlBodySchema>,
  signal: AbortSignal,
): Promise<ControlResult> {
  const client = new Client('http://localhost', { socketPath: path, headersTimeout: 0, bodyTimeout: 0 });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => client.destroy());
  const read = <T>(work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => Promise.reject(toControlError(error, signal)));
  const lines = await read(async () => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify(sent);
    const response = await client.request({ method: 'POST', path: CONTROL_PATH, headers, body, signal });
    return linesOf(response.body.setEncoding('utf8'));
  });
  const answer: ControlAnswer = await read(async () => answerSchema.parse((await lines.next()).value));
  if (sent.request.action !== 'sync' || !answer.done) return { answer, report: null };
  const following = opened.move();
  const report = read(async () => endSchema.parse((await lines.next()).value)).then((end) => {
    if ('failed' in end) throw toSyncError(end.failed);
    return end.report;
  });
  return { answer, report: report.finally(() => following.disposeAsync()) };
}

/** Parses lines of JSON. Throws `SyncError('serve_missing')` if the stream ends before the requested line. */
async function* linesOf(stream: AsyncIterable<string>): AsyncGenerator<unknown, never> {
  let rest = '';
  for await (const text of stream) {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line);
  }
  throw serveGone();
}

function toControlError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  const isOther =
    error instanceof z.ZodError || error instanceof SyntaxError || error instanceof errors.HTTPParserError;
  return isOther ? serveVersion() : serveGone();
}

function serveVersion(): SyncError {
  return new SyncError('serve_missing', 'the running serve answers in another way than this version of content-sync', {
    recovery: 'stop',
    hint: 'use the same version for both: restart the serve after an upgrade',
  });
}

function serveGone(): SyncError {
  return new SyncError('serve_missing', 'the running serve ended before it had answered', {
    recovery: 'retry',
    hint: 'an interrupted sync resumes with the next start; run the same command again',
  });
}

function denied(path: string): SyncError {
  return new SyncError('serve_missing', `the control socket ${path} is another user's`, {
    recovery: 'stop',
    hint: 'run the command as the user that `serve` runs as',
  });
}
