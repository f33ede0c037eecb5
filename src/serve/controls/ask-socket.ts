import { lstatSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { WALK_MODES } from '../../model/vocabulary.ts';
import type { RunReport } from '../../sync/report.ts';
import { CONTROL_VERSION, LineFault, linesFrom, writeLine } from './control-lines.ts';
import type { WalkNews } from './controlled-source.ts';
import type { ControlAnswer, ControlRequest } from './control-request.ts';
import type { WalkFollower } from './create-controls.ts';

/** The way to a running `serve`. */
export interface ServeDoor {
  /**
   * Asks, and follows walks to their end unless the follower's signal is aborted: then it rejects with its reason and the
   * walks go on. Throws `SyncError('serve_gone')` if the process ends before.
   */
  ask(request: ControlRequest, follower: WalkFollower): Promise<{ answer: ControlAnswer; report: RunReport | null }>;
}

/** A report of a run with all its resources. */
const LONGEST_LINE = 16_000_000;

/** An answer as another process has written it. */
export const answerSchema = z.looseObject({
  done: z.boolean(),
  message: z.string(),
  hint: z.string().nullable(),
  code: z.string().optional(),
  result: z.looseObject({}).optional(),
});
const governorSchema = z.object({
  requests: z.number(),
  limited: z.number(),
  allowedPerSecond: z.number().nullable(),
  shareUsed: z.number().nullable(),
  pausedForMs: z.number(),
});
const newsSchema: z.ZodType<WalkNews> = z.object({
  resource: z.string(),
  mode: z.enum(WALK_MODES),
  records: z.number(),
  pages: z.number(),
  requests: z.number(),
  total: z.number().nullable(),
  governor: governorSchema.nullable(),
});
const endSchema = z.object({ answer: answerSchema, report: z.unknown() });
const toldSchema = z.union([
  z.strictObject({ answer: answerSchema }),
  z.strictObject({ news: newsSchema }),
  z.strictObject({ end: endSchema }),
]);

/**
 * The process that listens on the control socket at this path; null if there is none. Throws `SyncError` if the socket
 * is another user's.
 */
export async function findSocket(path: string, by: string | null): Promise<ServeDoor | null> {
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined) return null;
  if (!isTrusted(path, owner)) throw denied(path);
  const socket = await connected(path);
  if (socket === null) return null;
  socket.destroy();
  return { ask: (request, follower) => ask(path, by, request, follower) };
}

/** Root may control the `serve` of another user, in a folder where no one else could have made the socket. */
function isTrusted(path: string, owner: number): boolean {
  const user = process.getuid?.() ?? owner;
  if (owner === user) return true;
  const folder = statSync(dirname(path));
  return user === 0 && folder.uid === owner && (folder.mode & 0o022) === 0;
}

async function connected(path: string): Promise<Socket | null> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket | null>();
  const socket = connect(path);
  socket.once('connect', () => resolve(socket));
  socket.once('error', (error) => {
    const code = 'code' in error ? error.code : null;
    if (code === 'EACCES' || code === 'EPERM') reject(denied(path));
    else resolve(null);
  });
  return promise;
}

async function ask(path: string, by: string | null, request: ControlRequest, follower: WalkFollower) {
  const socket = await connected(path);
  if (socket === null) throw gone();
  const leave = (): void => void socket.destroy();
  follower.signal.addEventListener('abort', leave);
  try {
    writeLine(socket, { content_sync: CONTROL_VERSION, request, by });
    for await (const line of linesFrom(socket, LONGEST_LINE)) {
      const told = toldSchema.parse(line);
      if ('answer' in told) follower.answered(told.answer);
      else if ('news' in told) follower.news(told.news);
      else return { answer: told.end.answer, report: isReport(told.end.report) ? told.end.report : null };
    }
  } catch (error) {
    follower.signal.throwIfAborted();
    if (error instanceof z.ZodError || error instanceof LineFault) throw misunderstood();
    throw gone();
  } finally {
    follower.signal.removeEventListener('abort', leave);
    socket.destroy();
  }
  follower.signal.throwIfAborted();
  throw gone();
}

/** Written by a process of ours, of this version or a neighbouring one. */
export function isReport(value: unknown): value is RunReport {
  const resources = z.array(z.object({ resource: z.string(), status: z.string() }));
  return z.object({ source: z.string(), run_id: z.string(), status: z.string(), resources }).safeParse(value).success;
}

/** The error of one who waited for a process that is no more. */
export function gone(): SyncError {
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
