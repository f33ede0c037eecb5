import { randomUUID } from 'node:crypto';
import { lstatSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { Client, errors } from 'undici';
import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { unlessAborted } from '../../model/waiting.ts';
import type { RunReport } from '../../sync/report.ts';
import type { ControlPost } from '../../database/coordination.ts';
import type { SharedDatabase } from '../../database/database.ts';
import { sharedDatabase } from '../../database/databases.ts';
import {
  errorOf,
  originText,
  type Begun,
  type Control,
  type controlBodySchema,
  type ControlAnswer,
  type ControlRequest,
} from './control-request.ts';

/** A running `serve`. */
export interface ServeDoor {
  /**
   * Sends a request. If the signal is aborted, this and the report reject with its reason, and the syncs continue. Both
   * throw `SyncError('serve_gone')` if the process ends before.
   */
  ask(request: ControlRequest, signal: AbortSignal): Promise<Begun>;
}

/** An answer as another process, of this version or another one, has written it. */
const answerSchema = z.looseObject({
  done: z.boolean(),
  message: z.string(),
  hint: z.string().nullable(),
  code: z.string().optional(),
  result: z.looseObject({}).optional(),
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
export async function findSocket(path: string, by: string | null): Promise<ServeDoor | null> {
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined) return null;
  if (!isTrusted(path, owner)) throw denied(path);
  if (!(await isListening(path))) return null;
  return { ask: (request, signal) => askSocket(path, { content_sync: 2, request, by }, signal) };
}

/** Root may control the `serve` of another user, in a folder where no one else could have made the socket. */
function isTrusted(path: string, owner: number): boolean {
  const user = process.getuid?.() ?? owner;
  if (owner === user) return true;
  const folder = statSync(dirname(path));
  return user === 0 && folder.uid === owner && (folder.mode & 0o022) === 0;
}

async function isListening(path: string): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once('connect', () => resolve(true));
  socket.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EACCES' || error.code === 'EPERM') reject(denied(path));
    else resolve(false);
  });
  return promise.finally(() => socket.destroy());
}

/** The answer is a line of JSON; the end of the syncs is another one. */
async function askSocket(path: string, asked: z.input<typeof controlBodySchema>, signal: AbortSignal): Promise<Begun> {
  const client = new Client('http://localhost', { socketPath: path, headersTimeout: 0, bodyTimeout: 0 });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => client.destroy());
  const read = <T>(work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => Promise.reject(toControlError(error, signal)));
  const lines = await read(async () => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify(asked);
    const response = await client.request({ method: 'POST', path: '/control', headers, body, signal });
    return linesOf(response.body.setEncoding('utf8'));
  });
  const answer: ControlAnswer = await read(async () => answerSchema.parse((await lines.next()).value));
  if (asked.request.action !== 'sync' || !answer.done) return { answer, report: null };
  const following = opened.move();
  const report = read(async () => endSchema.parse((await lines.next()).value)).then((end) => {
    if ('failed' in end) throw errorOf(end.failed);
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
  if (!isOther) return serveGone();
  return new SyncError('serve_version', 'the running serve answers in another way than this version of content-sync', {
    recovery: 'stop',
    hint: 'use the same version for both: restart the serve after an upgrade',
  });
}

interface LeaderAddress {
  /** The warehouse of the source. */
  warehouse: string;
  clock: Clock;
  /** The caller. */
  by: string | null;
}

const POLL_MS = 500;
/** Processes poll for requests every second. */
const ANSWER_TIMEOUT_MS = 20_000;

/**
 * The process that leads a source, on any machine, reached through the database that they share; null if no process
 * does, or if one process does all the work. Throws what the database throws.
 */
export async function findLeader(address: LeaderAddress): Promise<ServeDoor | null> {
  const shared = sharedDatabase(address.warehouse);
  if (shared === null) return null;
  const post = await shared.openCoordination(address.clock);
  const isLed = await post.isLed(shared.namespace).finally(() => post.close());
  return isLed ? { ask: (request, signal) => askLeader(shared, address, request, signal) } : null;
}

/** Passes a request on to the process that leads the source; null for a source that no other process can lead. */
export function askElsewhere(warehouse: string, clock: Clock): Control | null {
  const shared = sharedDatabase(warehouse);
  if (shared === null) return null;
  return (request, origin) => askLeader(shared, { warehouse, clock, by: originText(origin) }, request);
}

async function askLeader(
  shared: SharedDatabase,
  { clock, by }: LeaderAddress,
  request: ControlRequest,
  signal?: AbortSignal,
): Promise<Begun> {
  const id = randomUUID();
  const post = await shared.openCoordination(clock);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => post.close());
  await post.putControl({ id, source: shared.namespace, request: JSON.stringify(request), by });
  const answer = await pollAnswer(post, id, clock, signal);
  if (request.action !== 'sync' || !answer.done) return { answer, report: null };
  const following = opened.move();
  return { answer, report: pollReport(post, id, clock, signal).finally(() => following.disposeAsync()) };
}

async function pollAnswer(post: ControlPost, id: string, clock: Clock, signal?: AbortSignal): Promise<ControlAnswer> {
  const until = clock.monotonic() + ANSWER_TIMEOUT_MS;
  while (clock.monotonic() < until) {
    await clock.sleep(POLL_MS, signal);
    const answer = (await post.readControl(id))?.answer ?? null;
    if (answer !== null) return answerSchema.parse(JSON.parse(answer));
  }
  throw new SyncError('serve_silent', 'no process that leads the source has taken the request', {
    recovery: 'retry',
    hint: 'see whether `serve` runs, and whether it is of the same version; then run the same command again',
  });
}

async function pollReport(post: ControlPost, id: string, clock: Clock, signal?: AbortSignal): Promise<RunReport> {
  for (;;) {
    const state = await unlessAborted(post.readControl(id), signal);
    if (state?.isEnded === true) {
      const { data } = reportSchema.safeParse(JSON.parse(state.report ?? 'null'));
      if (data !== undefined) return data;
      const answer = answerSchema.parse(JSON.parse(state.answer ?? 'null'));
      throw answer.done ? serveGone() : errorOf(answer);
    }
    if (state?.isHeard !== true) throw serveGone();
    await clock.sleep(POLL_MS, signal);
  }
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
