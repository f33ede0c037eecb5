import { pino, type Logger, type DestinationStream } from 'pino';
import { errorReport } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { LogLevel } from '../model/vocabulary.ts';
import { asStarted } from './started-as.ts';
import { scrubJson } from './scrub.ts';
import { AsyncLocalStorage } from 'node:async_hooks';

interface LogOptions {
  level: LogLevel;
  /** Texts that must not be written; read at each line, so that a token that is fetched later can be pushed. */
  secrets: readonly string[];
  /** Takes the lines; standard error if absent. */
  destination?: LineSink;
}

/**
 * The log: one JSON object per line with `level` by name and `time` in ISO 8601. The serialised line is searched for
 * the secrets, because a search by field names would miss most of the ways in which a secret gets into a log.
 */
export function createLog({ level, secrets, destination = process.stderr }: LogOptions): Logger {
  const children = new Set<WeakRef<Logger>>();
  const log = pino(
    {
      level,
      onChild: (child) => addChild(children, child),
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      mixin: () => ({ ...runScope() }),
      formatters: { level: (label) => ({ level: label }), log: withErrorReport },
      hooks: { streamWrite: (line) => cleanLine(line, secrets) },
    },
    logStream(destination),
  );
  CHILDREN.set(log, children);
  return log;
}

/** A child has a level of its own, which does not follow that of its parent. */
const CHILDREN = new WeakMap<Logger, Set<WeakRef<Logger>>>();
/** From so many on, those are looked for that nobody uses any more. */
const MANY_CHILDREN = 500;

function addChild(children: Set<WeakRef<Logger>>, child: Logger): void {
  if (children.size >= MANY_CHILDREN) {
    for (const known of children) if (known.deref() === undefined) children.delete(known);
  }
  children.add(new WeakRef(child));
}

/** Changes the level of a log that `createLog` made, and of all that were derived from it. */
export function setLogLevel(log: Logger, level: LogLevel): void {
  log.level = level;
  for (const child of CHILDREN.get(log) ?? []) {
    const known = child.deref();
    if (known !== undefined) known.level = level;
  }
}

/** An error that is logged, as `err` or `error`, has the one form of all errors; that of a bug has its stack besides. */
function withErrorReport({ err, ...line }: Record<string, unknown>): Record<string, unknown> {
  const error = err ?? line['error'];
  if (!(error instanceof Error)) return err === undefined ? line : { ...line, error: errorReport(err) };
  const report = errorReport(error);
  return { ...line, error: report.code === 'bug' ? { ...pino.stdSerializers.err(error), ...report } : report };
}

function cleanLine(line: string, secrets: readonly string[]): string {
  return `${asStarted(visibleText(scrubJson(line.trimEnd(), secrets)))}\n`;
}

/** Characters that may be buffered for a slow reader. */
const MOST_WAITING = 4_194_304;

/** Destination of the lines: `process.stderr`, or a test's own. */
export interface LineSink {
  write(text: string): unknown;
  /** Characters that are not read yet. */
  readonly writableLength?: number;
  /** False once its reader is gone. */
  readonly writable?: boolean;
}

interface LogStream extends DestinationStream {
  /** Lines that were not written. */
  lost: number;
  /** Those that no line has reported yet. */
  unreported: number;
}

/** By sink: several logs to one sink are counted together. */
const streams = new WeakMap<LineSink, LogStream>();

/**
 * Writes to the sink without ever blocking or failing: while too much is unread, the reader is gone or writing fails,
 * lines are dropped and counted, and the next line that can be written is preceded by one that reports the number.
 */
export function logStream(sink: LineSink): LogStream {
  const known = streams.get(sink);
  if (known !== undefined) return known;
  const stream: LogStream = {
    lost: 0,
    unreported: 0,
    write: (line) => {
      const text = stream.unreported === 0 ? line : lossLine(stream.unreported) + line;
      if (written(sink, text)) stream.unreported = 0;
      else {
        stream.lost += 1;
        stream.unreported += 1;
      }
    },
  };
  streams.set(sink, stream);
  return stream;
}

/** How many lines of logs to the sink were not written. */
export function lostLines(sink: LineSink): number {
  return streams.get(sink)?.lost ?? 0;
}

/** Reports lines that were not written, unless a later line has done so. */
export function reportLostLines(sink: LineSink): void {
  const stream = streams.get(sink);
  if (stream !== undefined && stream.unreported > 0 && written(sink, lossLine(stream.unreported)))
    stream.unreported = 0;
}

function written(sink: LineSink, text: string): boolean {
  if (sink.writable === false || (sink.writableLength ?? 0) + text.length > MOST_WAITING) return false;
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

/** The run, and the resource in it, that some work is done for. */
interface RunScope {
  run_id: string;
  resource?: string;
}

const scopes = new AsyncLocalStorage<RunScope>();

/** Does `work` as part of a run: every line that is logged meanwhile, by whatever is called, names it. */
export function withinRun<T>(scope: RunScope, work: () => T): T {
  return scopes.run(scope, work);
}

/** What the present work is done for; nothing outside of a run. */
export function runScope(): Partial<RunScope> {
  return scopes.getStore() ?? {};
}
