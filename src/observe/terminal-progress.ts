import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import type { Clock } from '../model/clock.ts';
import { countText, durationText, percentText, rateText } from './figures.ts';
import { ratesOf, type ProgressSnapshot, type GovernorProgress, type ResourceProgress } from './progress.ts';

/** The part of a stream that is used: standard error, or a test's own. */
type LiveStream = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'rows'>>;

export interface TerminalProgress {
  /** Redraws the lines; at most ten times a second, more often it does nothing. */
  update(snapshot: ProgressSnapshot): void;
  /** Draws the latest state once more and leaves the cursor on the line below it. */
  finish(): void;
}

export interface TerminalProgressOptions {
  stream: LiveStream;
  clock: Pick<Clock, 'monotonic'>;
  /** Columns; if absent, those of the stream at each drawing. */
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
 * Live progress on a terminal. On anything else it writes nothing: there the log shows the progress.
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

/** A terminal of unknown size reports 0. */
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

/** The meaning of a piece of a line, for its colour. */
type Tone = 'plain' | 'bar' | 'good' | 'bad' | 'quiet';

/** A piece of a line; no piece holds anything but printable characters. */
interface Piece {
  text: string;
  tone: Tone;
}

const GAP = '  ';
const WIDEST_NAME = 24;
const WIDEST_BAR = 30;
const NARROWEST_BAR = 5;

const STATE_TONES: Readonly<Record<string, Tone>> = { ok: 'good', running: 'plain', waiting: 'quiet' };

/** One line per resource and one for the governor, none wider than `width` columns. Pure: no colours, no cursor. */
export function progressLines(snapshot: ProgressSnapshot, width: number): Piece[][] {
  const rows = snapshot.resources.map((progress) => rowOf(progress, snapshot));
  const widths = columnWidths(rows.map((row) => row.cells));
  const fixed = widths.filter((one) => one > 0).reduce((sum, one) => sum + one + GAP.length, 0);
  const room = Math.min(WIDEST_BAR, width - fixed - 1);
  const bar = rows.some(({ done }) => done !== null) && room >= NARROWEST_BAR ? room : 0;
  const lines = rows.map((row) => lineOf(row, widths, bar));
  return [...lines, governorLine(snapshot.governor)].map((line) => truncate(line, width));
}

/** One resource: its cells by column, the part that is done, and the colour of its state. */
interface Row {
  cells: string[];
  done: number | null;
  tone: Tone;
}

function rowOf(progress: ResourceProgress, { at, governor }: ProgressSnapshot): Row {
  const rates = ratesOf(progress, at);
  const { resource, records, total, state } = progress;
  const name = resource.length > WIDEST_NAME ? `${resource.slice(0, WIDEST_NAME - 1)}…` : resource;
  const tone = progress.note === null ? (STATE_TONES[state] ?? 'bad') : 'bad';
  if (progress.began === null) return { cells: [name, '', '', '', '', state], done: null, tone };
  const share = governor.allowedPerSecond === null ? null : rates.requestsPerSecond / governor.allowedPerSecond;
  const cells = [
    name,
    total === null ? countText(records) : `${countText(records)}/${countText(total)}`,
    `${rateText(rates.recordsPerSecond)}/s`,
    `${rateText(rates.requestsPerSecond)} req/s`,
    share === null ? '' : `limit ${percentText(share)}`,
    endOf(progress, rates.etaSeconds),
  ];
  return { cells, done: rates.done, tone };
}

/** The time left or what it waits for, or the final state and the duration. */
function endOf({ began, endedAt, state, note }: ResourceProgress, etaSeconds: number | null): string {
  if (began !== null && endedAt !== null) return `${state} ${durationText((endedAt - began.at) / 1_000)}`;
  if (note !== null) return note;
  return etaSeconds === null ? 'ETA ?' : `ETA ${durationText(etaSeconds)}`;
}

function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: columns }, (_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
}

function lineOf({ cells, done, tone }: Row, widths: readonly number[], bar: number): Piece[] {
  const [name = '', ...rest] = cells;
  const end = rest.pop() ?? '';
  const line: Piece[] = [{ text: name.padEnd(widths[0] ?? 0) + GAP, tone: 'plain' }];
  if (bar > 0) line.push(...barOf(done, bar), { text: GAP, tone: 'plain' });
  const figures = rest.map((cell, at) => ({ cell, width: widths[at + 1] ?? 0 })).filter(({ width }) => width > 0);
  for (const { cell, width } of figures) line.push({ text: cell.padStart(width) + GAP, tone: 'plain' });
  return [...line, { text: end, tone }];
}

function barOf(done: number | null, width: number): Piece[] {
  if (done === null) return [{ text: ' '.repeat(width), tone: 'plain' }];
  const full = Math.floor(Math.min(done, 1) * width);
  return [
    { text: '━'.repeat(full), tone: 'bar' },
    { text: '─'.repeat(width - full), tone: 'quiet' },
  ];
}

function governorLine(governor: GovernorProgress): Piece[] {
  const { requests, limited, allowedPerSecond, shareUsed, pausedForMs } = governor;
  const texts = [`${countText(requests)} requests`, `${countText(limited)} limited`];
  if (allowedPerSecond !== null) texts.push(`limit ${rateText(allowedPerSecond)}/s`);
  if (shareUsed !== null) texts.push(`${percentText(shareUsed)} of it used`);
  const line: Piece[] = [{ text: texts.join(GAP), tone: 'quiet' }];
  if (pausedForMs > 0) line.push({ text: `${GAP}paused for ${durationText(pausedForMs / 1_000)}`, tone: 'bad' });
  return line;
}

function truncate(line: readonly Piece[], width: number): Piece[] {
  if (line.reduce((sum, piece) => sum + piece.text.length, 0) <= width) return [...line];
  const kept: Piece[] = [];
  let left = width - 1;
  for (const { text, tone } of line) {
    kept.push({ text: text.slice(0, left), tone });
    left -= Math.min(left, text.length);
  }
  return [...kept, { text: '…', tone: 'quiet' }];
}
