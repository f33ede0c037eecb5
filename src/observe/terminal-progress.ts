import { countText, durationText, formatPercent, formatRate } from './figures.ts';
import { ratesOf, type ProgressSnapshot, type GovernorProgress, type ResourceProgress } from './progress.ts';

/** Standard error, or a stream of a test. */
type LiveStream = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number };

const MIN_REDRAW_MS = 100;
const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

/**
 * Shows live progress on a terminal, and nothing elsewhere: there the log shows the progress. The cursor is never hidden
 * and stays below the lines, so that a killed process leaves a usable terminal.
 */
export function createTerminalProgress({ stream, clock }: { stream: LiveStream; clock: { monotonic(): number } }) {
  let drawn = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  let pending: ProgressSnapshot | null = null;
  const draw = (snapshot: ProgressSnapshot): void => {
    // The last column stays empty, because some terminals wrap there, which would add a line.
    const lines = progressLines(snapshot, columnsOf(stream) - 1);
    const shown = lines.slice(0, Math.max(1, rowsOf(stream) - 1));
    stream.write(up(drawn) + shown.map((line) => `${line}\x1b[K\n`).join('') + CLEAR_BELOW);
    drawn = shown.length;
    drawnAt = clock.monotonic();
    pending = null;
  };
  return {
    /** Redraws the lines, at most ten times a second. */
    update(snapshot: ProgressSnapshot): void {
      pending = snapshot;
      if (stream.isTTY === true && clock.monotonic() - drawnAt >= MIN_REDRAW_MS) draw(snapshot);
    },
    /** Draws the latest state. */
    finish(): void {
      if (stream.isTTY === true && pending !== null) draw(pending);
    },
  };
}

/** A terminal of unknown size reports 0. */
function columnsOf({ columns = 0 }: LiveStream): number {
  return columns > 0 ? columns : DEFAULT_COLUMNS;
}

function rowsOf({ rows = 0 }: LiveStream): number {
  return rows > 0 ? rows : DEFAULT_ROWS;
}

const CLEAR_BELOW = '\x1b[J';

function up(lines: number): string {
  return lines === 0 ? '' : `\x1b[${lines}A\r`;
}

const GAP = '  ';
const MAX_NAME_LENGTH = 24;
const MAX_BAR_LENGTH = 30;
const MIN_BAR_LENGTH = 5;

/** Formats one line per resource and one for the rate limiter, none longer than `width`. */
export function progressLines(snapshot: ProgressSnapshot, width: number): string[] {
  const rows = snapshot.resources.map((progress) => rowOf(progress, snapshot));
  const widths = columnWidths(rows.map((row) => row.cells));
  const fixed = widths.filter((one) => one > 0).reduce((sum, one) => sum + one + GAP.length, 0);
  const room = Math.min(MAX_BAR_LENGTH, width - fixed - 1);
  const bar = rows.some(({ done }) => done !== null) && room >= MIN_BAR_LENGTH ? room : 0;
  const lines = rows.map((row) => lineOf(row, widths, bar));
  return [...lines, governorLine(snapshot.governor)].map((line) => truncate(line, width));
}

/** The cells of one resource, and its progress. */
interface ResourceRow {
  cells: string[];
  done: number | null;
}

function rowOf(progress: ResourceProgress, { at, governor }: ProgressSnapshot): ResourceRow {
  const rates = ratesOf(progress, at);
  const { resource, records, total, state } = progress;
  const name = resource.length > MAX_NAME_LENGTH ? `${resource.slice(0, MAX_NAME_LENGTH - 1)}…` : resource;
  if (progress.began === null) return { cells: [name, '', '', '', '', state], done: null };
  const share = governor.allowedPerSecond === null ? null : rates.requestsPerSecond / governor.allowedPerSecond;
  const cells = [
    name,
    total === null ? countText(records) : `${countText(records)}/${countText(total)}`,
    `${formatRate(rates.recordsPerSecond)}/s`,
    `${formatRate(rates.requestsPerSecond)} req/s`,
    share === null ? '' : `limit ${formatPercent(share)}`,
    endOf(progress, rates.etaSeconds),
  ];
  return { cells, done: rates.done };
}

/** The remaining time or what it waits for, or the final state and the duration. */
function endOf({ began, endedAt, state, note }: ResourceProgress, etaSeconds: number | null): string {
  if (began !== null && endedAt !== null) return `${state} ${durationText((endedAt - began.at) / 1_000)}`;
  if (note !== null) return note;
  return etaSeconds === null ? 'ETA ?' : `ETA ${durationText(etaSeconds)}`;
}

function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: columns }, (_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
}

function lineOf({ cells, done }: ResourceRow, widths: readonly number[], bar: number): string {
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

function governorLine({ requests, limited, allowedPerSecond, pausedForMs }: GovernorProgress): string {
  const texts = [`${countText(requests)} requests`, `${countText(limited)} limited`];
  if (allowedPerSecond !== null) texts.push(`limit ${formatRate(allowedPerSecond)}/s`);
  if (pausedForMs > 0) texts.push(`paused for ${durationText(pausedForMs / 1_000)}`);
  return texts.join(GAP);
}

function truncate(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, width - 1)}…`;
}
