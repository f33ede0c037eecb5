import type { WriteStream } from 'node:tty';
import type { Clock } from '../model/clock.ts';
import { countText, durationText, percentText, rateText } from './figures.ts';
import { ratesOf, type ProgressSnapshot, type GovernorProgress, type ResourceProgress } from './progress.ts';

/** The part of a stream that is used: standard error, or a test's own. */
type LiveStream = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'rows'>>;

const LEAST_MS_BETWEEN = 100;
const USUAL_WIDTH = 80;
const USUAL_HEIGHT = 24;

/**
 * Live progress on a terminal. On anything else it writes nothing: there the log shows the progress.
 * The cursor is never hidden and always rests below the lines, so a killed process leaves a usable terminal.
 */
export function createTerminalProgress({ stream, clock }: { stream: LiveStream; clock: Pick<Clock, 'monotonic'> }) {
  let drawn = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  let pending: ProgressSnapshot | null = null;
  const draw = (snapshot: ProgressSnapshot): void => {
    // The last column stays free: a terminal that wraps there would add a line that is not counted.
    const lines = progressLines(snapshot, columnsOf(stream) - 1);
    const shown = lines.slice(0, Math.max(1, rowsOf(stream) - 1));
    stream.write(up(drawn) + shown.map((line) => `${line}\x1b[K\n`).join('') + CLEAR_BELOW);
    drawn = shown.length;
    drawnAt = clock.monotonic();
    pending = null;
  };
  return {
    /** Redraws the lines; at most ten times a second, more often it does nothing. */
    update(snapshot: ProgressSnapshot): void {
      pending = snapshot;
      if (stream.isTTY === true && clock.monotonic() - drawnAt >= LEAST_MS_BETWEEN) draw(snapshot);
    },
    /** Draws the latest state once more and leaves the cursor on the line below it. */
    finish(): void {
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

const GAP = '  ';
const WIDEST_NAME = 24;
const WIDEST_BAR = 30;
const NARROWEST_BAR = 5;

/** One line per resource and one for the governor, none wider than `width` columns. */
export function progressLines(snapshot: ProgressSnapshot, width: number): string[] {
  const rows = snapshot.resources.map((progress) => rowOf(progress, snapshot));
  const widths = columnWidths(rows.map((row) => row.cells));
  const fixed = widths.filter((one) => one > 0).reduce((sum, one) => sum + one + GAP.length, 0);
  const room = Math.min(WIDEST_BAR, width - fixed - 1);
  const bar = rows.some(({ done }) => done !== null) && room >= NARROWEST_BAR ? room : 0;
  const lines = rows.map((row) => lineOf(row, widths, bar));
  return [...lines, governorLine(snapshot.governor)].map((line) => truncate(line, width));
}

/** One resource: its cells by column, and the part that is done. */
interface Row {
  cells: string[];
  done: number | null;
}

function rowOf(progress: ResourceProgress, { at, governor }: ProgressSnapshot): Row {
  const rates = ratesOf(progress, at);
  const { resource, records, total, state } = progress;
  const name = resource.length > WIDEST_NAME ? `${resource.slice(0, WIDEST_NAME - 1)}…` : resource;
  if (progress.began === null) return { cells: [name, '', '', '', '', state], done: null };
  const share = governor.allowedPerSecond === null ? null : rates.requestsPerSecond / governor.allowedPerSecond;
  const cells = [
    name,
    total === null ? countText(records) : `${countText(records)}/${countText(total)}`,
    `${rateText(rates.recordsPerSecond)}/s`,
    `${rateText(rates.requestsPerSecond)} req/s`,
    share === null ? '' : `limit ${percentText(share)}`,
    endOf(progress, rates.etaSeconds),
  ];
  return { cells, done: rates.done };
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

function lineOf({ cells, done }: Row, widths: readonly number[], bar: number): string {
  const [name = '', ...rest] = cells;
  const end = rest.pop() ?? '';
  const figures = rest.map((cell, at) => ({ cell, width: widths[at + 1] ?? 0 })).filter(({ width }) => width > 0);
  const parts = [
    name.padEnd(widths[0] ?? 0),
    ...(bar > 0 ? [barOf(done, bar)] : []),
    ...figures.map(({ cell, width }) => cell.padStart(width)),
    end,
  ];
  return parts.join(GAP);
}

function barOf(done: number | null, width: number): string {
  if (done === null) return ' '.repeat(width);
  const full = Math.floor(Math.min(done, 1) * width);
  return '━'.repeat(full) + '─'.repeat(width - full);
}

function governorLine({ requests, limited, allowedPerSecond, shareUsed, pausedForMs }: GovernorProgress): string {
  const texts = [`${countText(requests)} requests`, `${countText(limited)} limited`];
  if (allowedPerSecond !== null) texts.push(`limit ${rateText(allowedPerSecond)}/s`);
  if (shareUsed !== null) texts.push(`${percentText(shareUsed)} of it used`);
  if (pausedForMs > 0) texts.push(`paused for ${durationText(pausedForMs / 1_000)}`);
  return texts.join(GAP);
}

function truncate(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`;
}
