/** The log: JSON lines without secrets, which never block the work. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type DestinationStream, type Logger, pino } from 'pino';
import { errorReport } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { LogLevel } from '../model/vocabulary.ts';
import { scrubJson } from './scrub.ts';
import { toTypableCommands } from './started-as.ts';

interface LogOptions {
  level: LogLevel;
  /** Texts that must not be written; read for each line, so that tokens can be added later. */
  secrets: readonly string[];
  /** Receives the lines; standard error if absent. */
  destination?: LineSink;
  lost?: LostLines;
}

/** Lines of a log that could not be written. */
export interface LostLines {
  count: number;
}

/**
 * Creates the log: one JSON object per line with `level` by name and `time` in ISO 8601. The serialised line is searched
 * for the secrets, because a search by field names would miss most of the ways in which a secret gets into a log.
 */
export function createLog({ level, secrets, destination = process.stderr, lost }: LogOptions): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: () => ({ ...runScope() }),
      formatters: { level: (label) => ({ level: label }), log: withErrorReport },
      hooks: {
        streamWrite: (line) => `${toTypableCommands(visibleText(scrubJson(line.trimEnd(), secrets)))}\n`,
      },
    },
    nonBlockingStream(destination, lost ?? { count: 0 }),
  );
}

/** Logs an error, given as `err` or `error`, as an error report; an unexpected one also with its stack. */
function withErrorReport({ err, ...line }: Record<string, unknown>): Record<string, unknown> {
  const error = err ?? line['error'];
  if (!(error instanceof Error)) return err === undefined ? line : { ...line, error: errorReport(err) };
  const report = errorReport(error);
  return { ...line, error: report.code === 'bug' ? { ...pino.stdSerializers.err(error), ...report } : report };
}

/** Characters that may be buffered for a slow reader. */
const MAX_BUFFERED_CHARACTERS = 4_194_304;

/** Destination of the lines: `process.stderr`, or a stream of a test. */
interface LineSink {
  write(text: string): unknown;
  /** Characters that are not read yet. */
  readonly writableLength?: number;
  /** False once the reader is gone. */
  readonly writable?: boolean;
}

/**
 * Writes to the sink without ever blocking or failing. While the buffer is full, the reader is gone or writing fails,
 * lines are dropped and counted; the next line that can be written is preceded by one that reports their number.
 */
function nonBlockingStream(sink: LineSink, lost: LostLines): DestinationStream {
  let unreported = 0;
  lossReports.add(() => {
    if (unreported > 0 && tryWrite(sink, lossLine(unreported))) unreported = 0;
  });
  return {
    write: (line) => {
      if (tryWrite(sink, unreported === 0 ? line : lossLine(unreported) + line)) unreported = 0;
      else {
        lost.count += 1;
        unreported += 1;
      }
    },
  };
}

/** One function per log of this process. */
const lossReports = new Set<() => void>();

/** Reports dropped lines that no later line has reported; called before the process exits. */
export function reportLostLines(): void {
  for (const report of lossReports) report();
}

function tryWrite(sink: LineSink, text: string): boolean {
  if (sink.writable === false || (sink.writableLength ?? 0) + text.length > MAX_BUFFERED_CHARACTERS) return false;
  try {
    sink.write(text);
    return true;
  } catch {
    // For example a file on a full disk: logging must not stop the work.
    return false;
  }
}

function lossLine(lines: number): string {
  const time = new Date().toISOString();
  return `${JSON.stringify({ level: 'warn', time, lines, msg: 'lines of this log were not written: nobody read them' })}\n`;
}

/** The run, and the resource in it, that the current work belongs to. */
interface RunScope {
  run_id: string;
  resource?: string;
}

const scopes = new AsyncLocalStorage<RunScope>();

/** Does `work` as part of a run: every line logged during it names the run. */
export function withinRun<T>(scope: RunScope, work: () => T): T {
  return scopes.run(scope, work);
}

/** Returns the run of the current work; empty outside of a run. */
export function runScope(): Partial<RunScope> {
  return scopes.getStore() ?? {};
}
