// Requests to a running `serve` (sync, retry), their answers, and how both are written as JSON.
import { z } from 'zod';
import { errorReport, SyncError } from '../../model/errors.ts';
import type { RunReport } from '../../sync/report.ts';

const source = z.string().min(1);
const resource = z.string().min(1);
/** Forget a wait that the service has requested. */
const now = z.literal(true).optional();

/** A request to a running process, from the command line. */
export const controlRequestSchema = z.discriminatedUnion('action', [
  z.strictObject({ action: z.literal('sync'), source, resource, mode: z.enum(['incremental', 'full']) }),
  z.strictObject({ action: z.literal('retry'), source, resource: resource.optional(), now }),
]);

export type ControlRequest = z.output<typeof controlRequestSchema>;

/** The body of `POST /control`, as commands send it. */
export const controlBodySchema = z.strictObject({
  /** Grows with incompatible changes. */
  content_sync: z.literal(2),
  request: controlRequestSchema,
  /** The caller, for the audit log. */
  by: z.string().max(200).nullable(),
});

/** The result of a request so far: syncs may still be in progress. */
export interface ControlAnswer {
  done: boolean;
  /** One sentence, such as `content: a full scan begins`; why not if it is not done. */
  message: string;
  /** What to do next if it is not done. */
  hint: string | null;
  /** Stable, as in `SyncError`; absent if it is done. */
  code?: string | undefined;
}

/** The answer to a request, and the report of its syncs, which resolves when they end; null if none began. */
export interface ControlResult {
  answer: ControlAnswer;
  report: Promise<RunReport> | null;
}

/**
 * Carries out a request of `by`, the user and process of the command, which the log names. Never rejects: the answer says
 * why one could not be carried out.
 */
export type Control = (request: ControlRequest, by: string | null) => Promise<ControlResult>;

/** The answer for a request that is carried out. */
export function doneAnswer(message: string): ControlAnswer {
  return { done: true, message, hint: null };
}

/** The answer for a request that is not carried out. */
export function refusedAnswer(code: string, message: string, hint: string | null): ControlAnswer {
  return { done: false, code, message, hint };
}

/** The answer for a request that has thrown. */
export function errorAnswer(error: unknown): ControlAnswer {
  const { code, message, hint = null } = errorReport(error);
  return refusedAnswer(code, message, hint);
}

/** Converts an answer that is not done to an error. */
export function toSyncError({ code = 'refused', message, hint }: ControlAnswer): SyncError {
  return new SyncError(code, message, { recovery: 'stop', ...(hint === null ? {} : { hint }) });
}
