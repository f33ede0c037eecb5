import type { DestinationStream } from 'pino';

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
