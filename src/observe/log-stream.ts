import type { DestinationStream } from 'pino';

/** Characters that may wait for a reader, who may just be slow. */
const MOST_WAITING = 4_194_304;

/** Where lines go: `process.stderr`, or whatever a test puts in its place. */
export interface LineSink {
  write(text: string): unknown;
  /** Characters that nobody has read yet. */
  readonly writableLength?: number;
  /** False once its reader is gone. */
  readonly writable?: boolean;
}

interface LogStream extends DestinationStream {
  /** Lines that were not written. */
  lost: number;
  /** Those of which no line has told yet. */
  unreported: number;
}

/** By what they write to: several logs to one of them count together. */
const streams = new WeakMap<LineSink, LogStream>();

/**
 * A sink that never makes the work wait or fail for its reader: while too much is unread, the reader is gone or nothing
 * can be written, lines are left out and counted, and the next line that is written has one before it that says so.
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

/** Tells of lines that were not written, where no later line has. */
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
    // A file on a full disk. The work is worth more than what is told of it.
    return false;
  }
}

function lossLine(lines: number): string {
  const time = new Date().toISOString();
  return `${JSON.stringify({ level: 'warn', time, lines, msg: 'lines of this log were not written: nobody read them' })}\n`;
}
