// The log (`createLog`), and the run and resource that each line of a run names (`withinRun`).
import { AsyncLocalStorage } from 'node:async_hooks';
import { type DestinationStream, type Logger, pino } from 'pino';
import { errorReport } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { LogLevel } from '../model/vocabulary.ts';
import { scrubJson, toTypableCommands } from './scrub.ts';

interface LogOptions {
  level: LogLevel;
  /** Texts that must not be written; read for each line, so that tokens can be added later. */
  secrets: readonly string[];
  /** Receives the lines; standard error if absent. */
  destination?: LineSink;
}

/**
 * Creates the log: one JSON object per line with `level` by name and `time` in ISO 8601. The serialised line is searched
 * for the secrets, because a search by field names would miss most of the ways in which a secret gets into a log.
 */
export function createLog({ level, secrets, destination = process.stderr }: LogOptions): Logger {
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
    nonBlockingStream(destination),
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
  /** False after the reader has closed the pipe. */
  readonly writable?: boolean;
}

/**
 * Writes to the sink without ever blocking or failing. Lines are dropped while the buffer is full, after the reader has
 * closed the pipe, and if writing fails, for example to a file on a full disk.
 */
function nonBlockingStream(sink: LineSink): DestinationStream {
  return {
    write: (line) => {
      if (sink.writable === false || (sink.writableLength ?? 0) + line.length > MAX_BUFFERED_CHARACTERS) return;
      try {
        sink.write(line);
      } catch {
        // The log must not stop the work.
      }
    },
  };
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
