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
import { openCoordination, sharedDatabase } from '../../database/databases.ts';
import {
  errorOf,
  originText,
  type Begun,
  type Control,
  type controlBodySchema,
  type ControlAnswer,
  type ControlRequest,
} from './control-request.ts';

/** The way to a running `serve`. */
export interface ServeDoor {
  /**
   * Asks. If the signal is aborted, this and the report reject with its reason, and the syncs go on. Both throw
   * `SyncError('serve_gone')` if the process ends before.
   */
  ask(request: ControlRequest, signal: AbortSignal): Promise<Begun>;
}

/** An answer as another process has written it. */
const answerSchema = z.looseObject({
  done: z.boolean(),
  message: z.string(),
  hint: z.string().nullable(),
  code: z.string().optional(),
  result: z.looseObject({}).optional(),
});
/** Written by a process of ours, of this version or a neighbouring one. */
const reportSchema = z.custom<RunReport>(
  (value) =>
    z
      .object({ source: z.string(), run_id: z.string(), status: z.string(), resources: z.array(resultSchema) })
      .safeParse(value).success,
);
const resultSchema = z.object({ resource: z.string(), status: z.string() });
const endSchema = z.union([z.object({ report: reportSchema }), z.object({ failed: answerSchema })]);

/**
 * The process that listens on the control socket at this path; null if there is none. Throws `SyncError` if the socket
 * is another user's.
 */
export async function findSocket(path: string, by: string | null): Promise<ServeDoor | null> {
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined) return null;
  if (!isTrusted(path, owner)) throw denied(path);
  if (!(await isHeard(path))) return null;
  return { ask: (request, signal) => askSocket(path, { content_sync: 2, request, by }, signal) };
}

/** Root may control the `serve` of another user, in a folder where no one else could have made the socket. */
function isTrusted(path: string, owner: number): boolean {
  const user = process.getuid?.() ?? owner;
  if (owner === user) return true;
  const folder = statSync(dirname(path));
  return user === 0 && folder.uid === owner && (folder.mode & 0o022) === 0;
}

async function isHeard(path: string): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.once('connect', () => resolve(true));
  socket.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EACCES' || error.code === 'EPERM') reject(denied(path));
    else resolve(false);
  });
  return promise.finally(() => socket.destroy());
}

async function askSocket(path: string, asked: z.input<typeof controlBodySchema>, signal: AbortSignal): Promise<Begun> {
  const client = new Client('http://localhost', { socketPath: path, headersTimeout: 0, bodyTimeout: 0 });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => client.destroy());
  const read = <T>(work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => Promise.reject(faultOf(error, signal)));
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

/** Values of JSON, a line each. Throws `SyncError('serve_gone')` if the stream ends before the line that is asked for. */
async function* linesOf(stream: AsyncIterable<string>): AsyncGenerator<unknown, never> {
  let rest = '';
  for await (const text of stream) {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line);
  }
  throw gone();
}

function faultOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  const isOther =
    error instanceof z.ZodError || error instanceof SyntaxError || error instanceof errors.HTTPParserError;
  return isOther ? misunderstood() : gone();
}

interface LeaderPlace {
  /** The warehouse of the source. */
  warehouse: string;
  clock: Clock;
  /** Who asks. */
  by: string | null;
}

/** How often an answer and an end are looked for. */
const LOOK_MS = 500;
/** Processes look for requests every second. */
const PATIENCE_MS = 20_000;

/**
 * The process that leads a source, on whatever machine, by way of the database that they share; null if none does, or
 * if one process does all the work. Throws what the database throws.
 */
export async function findLeader(place: LeaderPlace): Promise<ServeDoor | null> {
  const namespace = sharedDatabase(place.warehouse)?.namespace;
  if (namespace === undefined) return null;
  const post = await openPost(place);
  const isLed = await post.isLed(namespace).finally(() => post.close());
  return isLed ? { ask: (request, signal) => askLeader(place, request, signal) } : null;
}

/** Passes on what another process must do; null for a source that no other process can lead. */
export function askElsewhere(warehouse: string, clock: Clock): Control | null {
  if (sharedDatabase(warehouse) === null) return null;
  return (request, origin) => askLeader({ warehouse, clock, by: originText(origin) }, request);
}

async function askLeader(place: LeaderPlace, request: ControlRequest, signal?: AbortSignal): Promise<Begun> {
  const source = sharedDatabase(place.warehouse)?.namespace ?? '';
  const id = randomUUID();
  const post = await openPost(place);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => post.close());
  await post.putControl({ id, source, request: JSON.stringify(request), by: place.by });
  const answer = await answerOf(post, id, place.clock, signal);
  if (request.action !== 'sync' || !answer.done) return { answer, report: null };
  const following = opened.move();
  return { answer, report: reportOf(post, id, place.clock, signal).finally(() => following.disposeAsync()) };
}

async function answerOf(post: ControlPost, id: string, clock: Clock, signal?: AbortSignal): Promise<ControlAnswer> {
  const until = clock.monotonic() + PATIENCE_MS;
  while (clock.monotonic() < until) {
    await clock.sleep(LOOK_MS, signal);
    const told = (await post.readControl(id))?.answer ?? null;
    if (told !== null) return answerSchema.parse(JSON.parse(told));
  }
  throw new SyncError('serve_silent', 'no process that leads the source has taken the request', {
    recovery: 'retry',
    hint: 'see whether `serve` runs, and whether it is of the same version; then run the same command again',
  });
}

async function reportOf(post: ControlPost, id: string, clock: Clock, signal?: AbortSignal): Promise<RunReport> {
  for (;;) {
    const told = await unlessAborted(post.readControl(id), signal);
    if (told?.isEnded === true) {
      const { data } = reportSchema.safeParse(JSON.parse(told.report ?? 'null'));
      if (data !== undefined) return data;
      const answer = answerSchema.parse(JSON.parse(told.answer ?? 'null'));
      throw answer.done ? gone() : errorOf(answer);
    }
    if (told?.isHeard !== true) throw gone();
    await clock.sleep(LOOK_MS, signal);
  }
}

async function openPost({ warehouse, clock }: LeaderPlace) {
  const coordination = await openCoordination(warehouse, clock);
  if (coordination === null) throw new Error('one process does all the work on this database');
  return coordination;
}

/** The error of one who waited for a process that is no more. */
function gone(): SyncError {
  return new SyncError('serve_gone', 'the running serve ended before it had answered', {
    recovery: 'retry',
    hint: 'a walk that was under way goes on with the next start; run the same command again',
  });
}

function misunderstood(): SyncError {
  return new SyncError('serve_version', 'the running serve answers in another way than this version of content-sync', {
    recovery: 'stop',
    hint: 'use the same version for both: restart the serve after an upgrade',
  });
}

function denied(path: string): SyncError {
  return new SyncError('control_denied', `the control socket ${path} is another user's`, {
    recovery: 'stop',
    hint: 'run the command as the user that `serve` runs as',
  });
}
