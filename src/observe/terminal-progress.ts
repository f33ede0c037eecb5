import { styleText } from 'node:util';
import type { WriteStream } from 'node:tty';
import type { Clock } from '../model/clock.ts';
import type { ProgressSnapshot } from './progress.ts';
import type { Piece, Tone } from './progress-text.ts';
import { progressLines } from './progress-text.ts';

/** What is needed of a stream: standard error, or anything that a test can read back. */
type LiveStream = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'rows'>>;

export interface TerminalProgress {
  /** Draws the lines in place of those drawn before; at most ten times a second, more often it does nothing. */
  update(snapshot: ProgressSnapshot): void;
  /** Draws the latest state once more and leaves the cursor on the line below it. */
  finish(): void;
}

export interface TerminalProgressOptions {
  stream: LiveStream;
  clock: Pick<Clock, 'monotonic'>;
  /** Columns; those of the stream at each drawing where absent. */
  width?: number;
}

const LEAST_MS_BETWEEN = 100;
const USUAL_WIDTH = 80;
const USUAL_HEIGHT = 24;

const STYLES: Readonly<Record<Tone, Parameters<typeof styleText>[0] | null>> = {
  plain: null,
  bar: 'cyan',
  good: 'green',
  bad: 'yellow',
  quiet: 'dim',
};

/**
 * Live progress on a terminal. On anything else it writes nothing: there the log tells how far a run is.
 * The cursor is never hidden and always rests below the lines, so a killed process leaves a usable terminal.
 */
export function createTerminalProgress({ stream, clock, width }: TerminalProgressOptions): TerminalProgress {
  let drawn = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  let pending: ProgressSnapshot | null = null;
  const draw = (snapshot: ProgressSnapshot): void => {
    // The last column stays free: a terminal that wraps there would add a line that is not counted.
    const lines = progressLines(snapshot, (width ?? columnsOf(stream)) - 1);
    const shown = lines.slice(0, Math.max(1, rowsOf(stream) - 1));
    stream.write(up(drawn) + shown.map((line) => `${paint(line, stream)}\x1b[K\n`).join('') + CLEAR_BELOW);
    drawn = shown.length;
    drawnAt = clock.monotonic();
    pending = null;
  };
  return {
    update(snapshot) {
      pending = snapshot;
      if (stream.isTTY === true && clock.monotonic() - drawnAt >= LEAST_MS_BETWEEN) draw(snapshot);
    },
    finish() {
      if (stream.isTTY === true && pending !== null) draw(pending);
    },
  };
}

/** A terminal that nobody has told its size says 0. */
function columnsOf({ columns = 0 }: LiveStream): number {
  return columns > 0 ? columns : USUAL_WIDTH;
}

function rowsOf({ rows = 0 }: LiveStream): number {
  return rows > 0 ? rows : USUAL_HEIGHT;
}

const CLEAR_BELOW = '\x1b[J';

function up(lines: number): string {
  return lines === 0 ? '' : `\x1b[${lines}A\r`;
}

function paint(line: readonly Piece[], stream: LiveStream): string {
  return line.map(({ text, tone }) => (text === '' ? '' : styled(text, tone, stream))).join('');
}

function styled(text: string, tone: Tone, stream: LiveStream): string {
  const style = STYLES[tone];
  return style === null ? text : styleText(style, text, { stream, validateStream: true });
}
