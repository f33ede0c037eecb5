import { pino, type Logger } from 'pino';
import { errorReport } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { LogLevel } from '../model/vocabulary.ts';
import { runScope } from './run-scope.ts';
import { logStream, type LineSink } from './log-stream.ts';
import { asStarted } from './started-as.ts';
import { scrubJson } from './scrub.ts';

export interface LogOptions {
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
