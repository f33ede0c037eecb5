// Sends control requests to a running `serve`: through its local socket, or through the queue in a shared database.
import { randomUUID } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { Client, errors } from 'undici';
import { z } from 'zod';
import type { SharedDatabase, SharedStatements } from '../../database/database.ts';
import { sharedDatabase } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { RunReport } from '../../sync/report.ts';
import { BOSS_SCHEMA, insertItem } from '../work-items/work-items.ts';
import {
  type Control,
  type ControlAnswer,
  type controlBodySchema,
  type ControlRequest,
  type ControlResult,
  done,
  originText,
  toSyncError,
} from './control-request.ts';

export interface ServeConnection {
  /**
   * Sends a request. If the signal is aborted, this and the report reject with its reason, and the syncs continue. Both
   * throw `SyncError('serve_gone')` if the process ends before.
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
/** What a leader leaves in the queue. */
const controlEnd = z.object({ answer: answerSchema, report: reportSchema.nullable() });
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
    const response = await client.request({ method: 'POST', path: '/control', headers, body, signal });
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

/** Parses lines of JSON. Throws `SyncError('serve_gone')` if the stream ends before the requested line. */
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
  return new SyncError('serve_version', 'the running serve answers in another way than this version of content-sync', {
    recovery: 'stop',
    hint: 'use the same version for both: restart the serve after an upgrade',
  });
}

interface LeaderAddress {
  warehouse: string;
  clock: Clock;
  by: string | null;
}

const POLL_MS = 500;
/** A leader takes requests every second; if it ends, another process leads by then. */
const LEADER_TIMEOUT_MS = 20_000;
/** A request that cannot be carried out is refused by then. */
const REFUSAL_MS = 1_500;

const STATE = `SELECT state::text AS state, output::text AS output FROM ${BOSS_SCHEMA}.job WHERE id = $1::uuid`;
const WITHDRAW = `DELETE FROM ${BOSS_SCHEMA}.job WHERE id = $1::uuid AND state < 'active'`;

/**
 * The process that leads a source, on any machine, reached through the queue in the database that they share; null if
 * no process does, or if one process does all the work. Throws what the database throws.
 */
export async function findLeader(address: LeaderAddress): Promise<ServeConnection | null> {
  const shared = sharedDatabase(address.warehouse);
  if (shared === null) return null;
  const coordination = await shared.openCoordination(address.clock);
  const isLed = await coordination.isLed(shared.namespace).finally(() => coordination.close());
  return isLed ? { send: (request, signal) => sendToLeader(shared, address, request, signal) } : null;
}

/** Passes a request on to the process that leads the source; null for a source that no other process can lead. */
export function forwardToLeader(warehouse: string, clock: Clock): Control | null {
  const shared = sharedDatabase(warehouse);
  if (shared === null) return null;
  return (request, origin) => sendToLeader(shared, { warehouse, clock, by: originText(origin) }, request);
}

async function sendToLeader(
  shared: SharedDatabase,
  { clock, by }: LeaderAddress,
  request: ControlRequest,
  signal?: AbortSignal,
): Promise<ControlResult> {
  const id = randomUUID();
  const statements = shared.connect(clock);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => statements.close());
  const source = shared.namespace;
  const isQueued = await insertItem({ kind: 'control', source, id, request, by }, statements.execute, id);
  // After a lost response the statement runs twice, and finds its item. Else an older version has made no such queue.
  if (!isQueued && (await statements.execute(STATE, [id])).rows.length === 0) throw serveVersion();
  const ended = pollEnd(statements, id, clock, signal);
  const early = request.action === 'sync' ? await waitAtMost(clock, REFUSAL_MS, ended) : { value: await ended };
  if (early !== null)
    return { answer: early.value.answer, report: early.value.report && Promise.resolve(early.value.report) };
  const following = opened.move();
  const report = ended.then((end) => {
    if (end.report === null) throw toSyncError(end.answer);
    return end.report;
  });
  return { answer: done('requested'), report: report.finally(() => following.disposeAsync()) };
}

/** Polls the queue until a leader has carried out the request. If it throws, a request that no leader has taken is withdrawn. */
async function pollEnd(
  statements: SharedStatements,
  id: string,
  clock: Clock,
  signal?: AbortSignal,
): Promise<z.output<typeof controlEnd>> {
  let wasTaken = false;
  try {
    for (let takenAt = clock.monotonic(); clock.monotonic() - takenAt < LEADER_TIMEOUT_MS;) {
      await clock.sleep(POLL_MS, signal);
      const { rows } = await statements.execute<{ state: string; output: string | null }>(STATE, [id]);
      const [row] = rows;
      if (row === undefined) throw serveGone();
      if (row.state === 'active') [wasTaken, takenAt] = [true, clock.monotonic()];
      if (row.state === 'completed')
        return z.object({ result: controlEnd }).parse(JSON.parse(row.output ?? 'null')).result;
    }
    throw wasTaken ? serveGone() : serveSilent();
  } catch (error) {
    await statements.run(WITHDRAW, [id], 0).catch(() => undefined);
    throw error;
  }
}

function serveSilent(): SyncError {
  return new SyncError('serve_silent', 'no process that leads the source has taken the request', {
    recovery: 'retry',
    hint: 'see whether `serve` runs, and whether it is of the same version; then run the same command again',
  });
}

function serveGone(): SyncError {
  return new SyncError('serve_gone', 'the running serve ended before it had answered', {
    recovery: 'retry',
    hint: 'an interrupted sync resumes with the next start; run the same command again',
  });
}

function denied(path: string): SyncError {
  return new SyncError('control_denied', `the control socket ${path} is another user's`, {
    recovery: 'stop',
    hint: 'run the command as the user that `serve` runs as',
  });
}
