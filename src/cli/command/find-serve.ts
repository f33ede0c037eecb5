import { existsSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { sharedDatabase } from '../../database/databases.ts';
import { ConfigError, type SyncError } from '../../model/errors.ts';
import type { ServeConnection } from '../../server/controls/serve-connection.ts';
import { errorOf, type ControlAnswer, type ControlRequest } from '../../server/controls/control-request.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

/** The `serve` that keeps a source fresh; null if none runs. Throws `SyncError('control_denied')`. */
export async function findServe(
  { clock }: CliContext,
  { control, source }: ChosenSource,
): Promise<ServeConnection | null> {
  const hasSocket = control !== null && existsSync(control);
  if (!hasSocket && sharedDatabase(source.warehouse) === null) return null;
  // Loaded only if a `serve` may run.
  const { findLeader, findSocket } = await import('../../server/controls/serve-connection.ts');
  const by = caller();
  const socket = hasSocket ? await findSocket(control, by) : null;
  // A `serve` on another machine is reached through the database.
  return socket ?? findLeader({ warehouse: source.warehouse, clock, by: `${by} on ${hostname()}` });
}

/** Who runs this command, for the log of the process that does what it asks for. */
export function caller(): string {
  try {
    return `${userInfo().username}, pid ${process.pid}`;
  } catch {
    // The user of a container may have no name.
    return `pid ${process.pid}`;
  }
}

/**
 * Asks a running `serve`. Returns its answer; null if it does not keep the source, which another process may do. Throws
 * the answer's error if it is not done.
 */
export async function askServe(
  serve: ServeConnection,
  request: ControlRequest,
  signal: AbortSignal,
): Promise<ControlAnswer | null> {
  const { answer } = await serve.send(request, signal);
  if (answer.code === 'unknown_source') return null;
  if (!answer.done) throw failureOf(answer);
  return answer;
}

/** The error of an answer, as the same command throws it where it does the work itself. */
export function failureOf(answer: ControlAnswer): SyncError {
  const { code, message, hint } = answer;
  if (code !== 'usage') return errorOf(answer);
  return new ConfigError('usage', message, hint === null ? {} : { hint });
}
