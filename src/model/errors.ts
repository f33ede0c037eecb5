// The error classes of the program, and conversions of thrown values.

/** The reaction to an error: retry, skip this item, or stop the resource. */
export type Recovery = 'retry' | 'skip' | 'stop';

export interface SyncErrorOptions {
  recovery: Recovery;
  /** What the operator should do next, as one sentence. */
  hint?: string | undefined;
  /** The id by which the service's operators find the failed request. */
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * The only error class that crosses layers. `code` is stable (scripts may match on it), the message says what happened,
 * `hint` says what to do next. Any other error is a bug and is never retried.
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

/** The service requests a longer wait than `max_wait`: the work is deferred until `until`, exit code 4. */
export class DeferredError extends SyncError {
  override readonly name = 'DeferredError';
  /** Time of the next attempt, epoch milliseconds on the local clock. */
  readonly until: number;

  constructor(message: string, until: number, options: { hint?: string; cause?: unknown } = {}) {
    super('deferred', message, { recovery: 'stop', ...options });
    this.until = until;
  }
}

/** The JSON form of an error; `code` is `bug` for an unexpected one. */
export interface ErrorReport {
  code: string;
  message: string;
  hint?: string;
  /** The id by which the service's operators find the failed request. */
  request_id?: string;
}

/** Converts any thrown value; `clean` is applied to its texts. */
export function errorReport(error: unknown, clean: (text: string) => string = (text) => text): ErrorReport {
  const message = clean(messageOf(error));
  if (!(error instanceof SyncError)) return { code: 'bug', message };
  const { code, hint, requestId } = error;
  const advice = hint === undefined ? {} : { hint: clean(hint) };
  return { code, message, ...advice, ...(requestId === undefined ? {} : { request_id: clean(requestId) }) };
}

/** Returns the code of a system or database error, such as `ENOENT` or an SQLSTATE; '' if there is none. */
export function errorCode(error: unknown): string {
  // If a host name has several addresses, Node reports all attempts at once.
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
