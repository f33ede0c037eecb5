import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { RunReport } from '../../sync/report.ts';
import type { Scheduler } from '../schedule/scheduler.ts';

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

/** The answer to a request, and the report of the syncs that it began: null if none began. It settles when they end. */
export interface Begun {
  answer: ControlAnswer;
  report: Promise<RunReport> | null;
}

/** Does what is asked for. Never rejects: a request that cannot be carried out is answered with the reason. */
export type Control = (request: ControlRequest, origin: ControlOrigin) => Promise<Begun>;

/** The body of `POST /control`, as commands send it. */
export const controlBodySchema = z.strictObject({
  /** A change that the other side would not understand is another number. */
  content_sync: z.literal(2),
  request: controlRequestSchema,
  /** Who asks, for the audit line. */
  by: z.string().max(200).nullable(),
});

/** A source that is kept fresh, as the controls see it. */
export interface ControlledSource {
  source: SourceSettings;
  clock: Clock;
  /** Null while this process does not lead the source, or has not opened it yet. */
  scheduler(): Pick<Scheduler, 'walkNow' | 'figures'> | null;
  /** Passes a request on to the process that leads the source; null if that is this one. */
  elsewhere(): Control | null;
  /** Forgets what was refused of these resources, with `now` also waits that the service has stated; looks what is due. */
  retry(resources: readonly string[], now: boolean): Promise<void>;
  /** Called when resources have been paused or resumed. */
  pausesChanged(): Promise<void>;
  /** Called when deliveries or decisions wait. */
  wake(): void;
}

/** The answer of a request that is carried out. */
export function done(message: string, result?: object): ControlAnswer {
  return { done: true, message, hint: null, ...(result === undefined ? {} : { result }) };
}

/** The answer of one that is not, and what to do next. */
export function refused(code: string, message: string, hint: string | null): ControlAnswer {
  return { done: false, code, message, hint };
}

/** The answer of one that has thrown. */
export function failed(error: unknown): ControlAnswer {
  if (error instanceof SyncError) return refused(error.code, error.message, error.hint ?? null);
  return refused('bug', messageOf(error), null);
}

/** The error of an answer that is not what was asked for. */
export function errorOf({ code = 'refused', message, hint }: ControlAnswer): SyncError {
  return new SyncError(code, message, { recovery: 'stop', ...(hint === null ? {} : { hint }) });
}

/** Who has asked, for people: `ann (command)`. */
export function originText({ via, by }: ControlOrigin): string {
  return by === null ? via : `${by} (${via})`;
}
