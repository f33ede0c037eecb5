// What all commands share: streams and environment (`CliContext`), exit codes, printing of reports and errors, colours.
import type { Readable, Writable } from 'node:stream';
import { styleText } from 'node:util';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, DeferredError, messageOf, SyncError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { scrubJson, scrubOwn, toTypableCommands } from '../../observe/scrub.ts';

/** Where a command prints errors, progress and its log. */
interface ErrorOutput {
  stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
  /** Texts that must not be written anywhere; filled when the settings are read. */
  secrets: string[];
  /** True if the command is to print JSON: its errors are then JSON too, except on a terminal. */
  json?: boolean;
  /** True for a command that only people run: its errors are never a log line. */
  errorsAsText?: boolean;
}

/** Everything outside the process that a command uses; created once per process, and by tests. */
export interface CliContext extends ErrorOutput {
  version: string;
  /** Where a command prints its result. */
  stdout: Writable & { isTTY?: boolean; columns?: number };
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Where a command reads the answers of the user, if it is a terminal. */
  stdin: Readable & { isTTY?: boolean };
  /** Aborted, with a `SyncError('interrupted')`, by the first SIGINT, SIGTERM or SIGHUP. */
  signal: AbortSignal;
  clock: Clock;
  /** True if the command uses no secret of the settings, so that those may be missing. */
  secretsOptional?: boolean;
  /** Removes these permissions, such as `0o077`, from every file and folder that the process creates from now on. */
  umask: (mask: number) => void;
  exit: (code: ExitCode) => void;
}

/** Exit codes of the process; a test compares the documented ones with these. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2, partial: 3, deferred: 4, interrupted: 130 } as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

export function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof ConfigError) return EXIT_CODES.usage;
  if (error instanceof DeferredError) return EXIT_CODES.deferred;
  if (error instanceof SyncError && error.code === 'interrupted') return EXIT_CODES.interrupted;
  return EXIT_CODES.failed;
}

/** The most severe of the exit codes of several sources. */
export function worstExitCode(codes: readonly ExitCode[]): ExitCode {
  const order: readonly ExitCode[] = [130, 2, 1, 3, 4, 0];
  return order.find((code) => codes.includes(code)) ?? EXIT_CODES.ok;
}

/**
 * Prints the result of a command: an object as one line of JSON, a text as it is. Removes secrets, because responses and
 * deliveries of a service may contain them.
 */
export function print({ stdout, secrets }: CliContext, result: object | string): void {
  const text =
    typeof result === 'string'
      ? toTypableCommands(scrubOwn(result, secrets))
      : scrubJson(JSON.stringify(result, replaceHint), secrets);
  stdout.write(`${text}\n`);
}

/** Prints the report of a command: with `--json` the object as one line of JSON, else the text. */
export function printReport(context: CliContext, report: object, text: string): void {
  print(context, context.json === true ? report : text);
}

function replaceHint(key: string, value: unknown): unknown {
  return key === 'hint' && typeof value === 'string' ? toTypableCommands(value) : value;
}

/** Pads cells to columns; one line per row, without trailing spaces. `paint` colours a padded cell by its column. */
export function alignedLines(
  rows: readonly (readonly string[])[],
  paint: (cell: string, column: number) => string = (cell) => cell,
): string[] {
  const widths: number[] = [];
  for (const row of rows) for (const [at, { length }] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, length);
  return rows.map((row) =>
    row
      .map((cell, at) => paint(cell.padEnd(widths[at] ?? 0), at))
      .join('  ')
      .trimEnd(),
  );
}

/**
 * Writes the error that ended a command, or its work on `source`, to stderr: as text on a terminal, as a log line anywhere
 * else. Errors in settings and arguments have several lines for the user, so they are text unless the command prints JSON.
 */
export async function printError(
  { stderr, secrets, json = false, errorsAsText = false }: ErrorOutput,
  error: unknown,
  source?: string,
): Promise<void> {
  if (stderr.isTTY === true || errorsAsText || (error instanceof ConfigError && !json)) {
    const text = toTypableCommands(scrubOwn(errorText(error, source), secrets));
    stderr.write(`${text.split('\n').map(visibleText).join('\n')}\n`);
    return;
  }
  const { createLog } = await import('../../observe/log.ts');
  createLog({ level: 'error', secrets, destination: stderr }).error({ source, error }, messageOf(error));
}

/** The message and the hint; a stack only for a bug. */
function errorText(error: unknown, source: string | undefined): string {
  const prefix = source === undefined ? 'content-sync' : `content-sync: ${source}`;
  if (!(error instanceof SyncError)) return `${prefix}: a bug, please report it:\n${formatStack(error)}`;
  const hint = error.hint === undefined ? '' : `\n  → ${error.hint}`;
  return `${prefix}: ${error.message} [${error.code}]${hint}`;
}

function formatStack(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
}

export const MAX_PORT = 65_535;

/** Parses the value of an option that takes a whole number. */
export function wholeNumber(option: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new ConfigError('usage', `${option} must be a whole number from ${min} to ${max}, not "${text}"`);
  };
}

/** The first commands of a new user, for the help and the demo. */
export const FIRST_STEPS = `
  content-sync init        Ask for address and credential, and write a working config
  content-sync backfill    Copy everything; run it again after a stop, it resumes
  content-sync sync        Copy what changed since; a schedule calls this
  content-sync serve       Keep the copy fresh: schedule, webhooks, deletes, a status page`;

/** The meaning of a text, which decides its colour. */
export type TextTone = 'good' | 'warning' | 'bad' | 'quiet' | 'plain';

export type Paint = (text: string, tone: TextTone) => string;

const STYLES = { good: 'green', warning: 'yellow', bad: 'red', quiet: 'dim' } as const;

/**
 * Returns the function that colours text for stdout: on a terminal, unless `NO_COLOR` is set; everywhere if `FORCE_COLOR`
 * is set.
 */
export function painter({ stdout }: CliContext): Paint {
  return (text, tone) => (tone === 'plain' ? text : styleText(STYLES[tone], text, { stream: stdout }));
}

const STATUS_TONES: Readonly<Record<string, TextTone>> = {
  ok: 'good',
  partial: 'warning',
  deferred: 'warning',
  interrupted: 'warning',
  failed: 'bad',
};

/** The tone of a run status; plain for any other word. */
export function toneOfStatus(status: string): TextTone {
  return STATUS_TONES[status] ?? 'plain';
}
