/** The possible reaction to an error: try again, leave this one thing out, or give up on the resource. */
export type Recovery = 'retry' | 'skip' | 'stop';

export interface SyncErrorOptions {
  recovery: Recovery;
  /** What the operator should do next, as one sentence. */
  hint?: string | undefined;
  /** By which the service's operators find the request that failed. */
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * The one error class that crosses floors. `code` is stable (scripts may match on it), the message says what
 * happened, `hint` says what to do next. Anything else that is thrown is a bug and is never retried.
 */
export class SyncError extends Error {
  override readonly name: string = 'SyncError';
  readonly code: string;
  readonly recovery: Recovery;
  readonly hint: string | undefined;
  readonly requestId: string | undefined;

  constructor(code: string, message: string, options: SyncErrorOptions) {
    super(message, { cause: options.cause });
    this.code = code;
    this.recovery = options.recovery;
    this.hint = options.hint;
    this.requestId = options.requestId;
  }
}

/** Settings, profile, stored state or arguments that cannot be used as they are: exit code 2, before any request. */
export class ConfigError extends SyncError {
  override readonly name = 'ConfigError';

  constructor(code: string, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(code, message, { recovery: 'stop', ...options });
  }
}

/** The service asked for a longer wait than `max_wait`: the work is parked until `until`, exit code 4. */
export class DeferredError extends SyncError {
  override readonly name = 'DeferredError';
  /** Epoch milliseconds on the local clock from which the service may be asked again. */
  readonly until: number;

  constructor(message: string, until: number, options: { hint?: string; cause?: unknown } = {}) {
    super('deferred', message, { recovery: 'stop', ...options });
    this.until = until;
  }
}

/** An error as it stands wherever JSON is written; `code` is `bug` for what is none of ours. */
export interface ErrorReport {
  code: string;
  message: string;
  /** What to do next. */
  hint?: string;
  /** By which the service's operators find the request that failed. */
  request_id?: string;
}

/** The report of anything thrown; its texts go through `clean`. */
export function errorReport(error: unknown, clean: (text: string) => string = (text) => text): ErrorReport {
  const message = clean(messageOf(error));
  if (!(error instanceof SyncError)) return { code: 'bug', message };
  const { code, hint, requestId } = error;
  const advice = hint === undefined ? {} : { hint: clean(hint) };
  return { code, message, ...advice, ...(requestId === undefined ? {} : { request_id: clean(requestId) }) };
}

/** The message of anything thrown, for a log line or a stored run. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
