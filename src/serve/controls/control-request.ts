import { z } from 'zod';

const source = z.string().min(1).meta({ description: 'Name of a source of the config' });
const resource = z.string().min(1).optional().meta({ description: 'One resource; all of the source where absent' });
const ids = z.array(z.string().min(1)).optional().meta({ description: 'Only these; all that wait where absent' });
const now = z.literal(true).optional().meta({ description: 'Forget a wait that the service has stated' });

/** What a running process can be told to do, from the command line or from its page. */
export const controlRequestSchema = z.discriminatedUnion('action', [
  z.strictObject({ action: z.literal('sync'), source, resource, mode: z.enum(['incremental', 'full']) }),
  z.strictObject({ action: z.literal('pause'), source, resource }),
  z.strictObject({ action: z.literal('resume'), source, resource }),
  z.strictObject({ action: z.literal('retry'), source, resource, now }),
  z.strictObject({ action: z.literal('replay'), source, ids }),
  z.strictObject({ action: z.literal('confirm'), source, resource, ids }),
  z.strictObject({ action: z.literal('discard'), source, resource, ids }),
  z.strictObject({ action: z.literal('reload') }),
]);

export type ControlRequest = z.output<typeof controlRequestSchema>;
export type ControlAction = ControlRequest['action'];

/** Who asks, for the audit line. */
export interface ControlOrigin {
  /** The door that the request came through. */
  via: 'command' | 'page' | 'signal' | 'database';
  /** The user's name on the page, or the user and process of the command; null if that is not known. */
  by: string | null;
}

/** The effect of a request so far: what was asked for may still be going on. */
export interface ControlAnswer {
  done: boolean;
  /** One sentence, such as `content: a full walk begins`; why not where it is not done. */
  message: string;
  /** What to do next where it is not done. */
  hint: string | null;
  /** Stable, as in `SyncError`; absent where it is done. */
  code?: string | undefined;
  /** For programs: what `--json` of the command prints. Absent if the message says all. */
  result?: object | undefined;
}

/** Does what is asked for. Never rejects: a request that cannot be carried out is answered with the reason. */
export type Control = (request: ControlRequest, origin: ControlOrigin) => Promise<ControlAnswer>;
