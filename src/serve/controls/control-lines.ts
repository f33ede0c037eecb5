import type { Socket } from 'node:net';
import { z } from 'zod';
import type { RunReport } from '../../sync/report.ts';
import type { WalkNews } from './controlled-source.ts';
import { controlRequestSchema, type ControlAnswer } from './control-request.ts';

/** What both sides must speak; a change that the other side would not understand is another number. */
export const CONTROL_VERSION = 1;

/** The one line that a client sends. */
export const askedSchema = z.strictObject({
  content_sync: z.literal(CONTROL_VERSION),
  request: controlRequestSchema,
  /** Who asks, for the audit line. */
  by: z.string().max(200).nullable(),
});

export type AskedLine = z.output<typeof askedSchema>;

/** The lines of the server: `answer` at first, then `news` as walks go on, and `end` last. */
export type ToldLine =
  | { answer: ControlAnswer }
  | { news: WalkNews }
  | { end: { answer: ControlAnswer; report: RunReport | null } };

export function writeLine(socket: Socket, line: AskedLine | ToldLine): void {
  if (socket.writable) socket.write(`${JSON.stringify(line)}\n`);
}

/** Why lines cannot be read any further. */
export class LineFault extends Error {}

/**
 * The lines that come in, parsed, each of at most `mostBytes`. Throws `LineFault` for a longer one and for what is not
 * JSON in UTF-8, and the error of the socket. A last line without its end is left out.
 */
export async function* linesFrom(socket: AsyncIterable<Buffer>, mostBytes: number): AsyncGenerator {
  let rest = Buffer.alloc(0);
  for await (const chunk of socket) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      if (end > mostBytes) throw new LineFault('a line is too long');
      yield parsed(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
    if (rest.length > mostBytes) throw new LineFault('a line is too long');
  }
}

/**
 * The first line of a client, parsed; null if it ends before. What comes after it is thrown away, so that its end is
 * noticed. Rejects with `LineFault` as `linesFrom` does.
 */
export function firstLine(socket: Socket, mostBytes: number): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const more = (chunk: Buffer): void => {
    const end = chunk.indexOf(10);
    chunks.push(end === -1 ? chunk : chunk.subarray(0, end));
    bytes += chunks.at(-1)?.length ?? 0;
    if (bytes <= mostBytes && end === -1) return;
    socket.off('data', more).resume();
    if (bytes > mostBytes) reject(new LineFault('a line is too long'));
    else resolve(Promise.try(() => parsed(Buffer.concat(chunks))));
  };
  socket.on('data', more);
  socket.once('close', () => resolve(null));
  socket.once('end', () => resolve(null));
  return promise;
}

const STRICT = new TextDecoder('utf-8', { fatal: true });

function parsed(line: Uint8Array): unknown {
  try {
    const value: unknown = JSON.parse(STRICT.decode(line));
    return value;
  } catch {
    throw new LineFault('a line is not JSON');
  }
}
