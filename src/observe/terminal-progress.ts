import { countText, durationText, formatPercent, formatRate } from './figures.ts';
import { type GovernorProgress, type ProgressSnapshot, ratesOf, type ResourceProgress } from './progress.ts';

/** Standard error, or a stream of a test. */
type LiveStream = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number };

const MIN_REDRAW_MS = 100;
const CLEAR_BELOW = '\x1b[J';

/**
 * Shows live progress on a terminal, and nothing elsewhere: there the log shows the progress. The cursor is never hidden
 * and stays below the lines, so that a killed process leaves a usable terminal.
 */
export function createTerminalProgress({ stream, clock }: { stream: LiveStream; clock: { monotonic(): number } }) {
  let drawn = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  let pending: ProgressSnapshot | null = null;
  const draw = (snapshot: ProgressSnapshot): void => {
    // A terminal of unknown size reports 0.
    const [columns, rows] = [stream.columns || 80, stream.rows || 24];
    // The last column stays empty, because some terminals wrap there, which would add a line.
    const shown = progressLines(snapshot, columns - 1).slice(0, Math.max(1, rows - 1));
    const up = drawn === 0 ? '' : `\x1b[${drawn}A\r`;
    stream.write(up + shown.map((line) => `${line}\x1b[K\n`).join('') + CLEAR_BELOW);
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

const GAP = '  ';
const MAX_NAME_LENGTH = 24;
const MAX_BAR_LENGTH = 30;
const MIN_BAR_LENGTH = 5;

/** Formats one line per resource and one for the rate limiter, none longer than `width`. */
export function progressLines(snapshot: ProgressSnapshot, width: number): string[] {
  const rows = snapshot.resources.map((progress) => cellsOf(progress, snapshot));
  const columnCount = Math.max(0, ...rows.map(({ cells }) => cells.length));
  const widths = Array.from({ length: columnCount }, (_, at) =>
    Math.max(...rows.map(({ cells }) => cells[at]?.length ?? 0)),
  );
  const fixed = widths.filter((each) => each > 0).reduce((sum, each) => sum + each + GAP.length, 0);
  const room = Math.min(MAX_BAR_LENGTH, width - fixed - 1);
  const bar = rows.some(({ done }) => done !== null) && room >= MIN_BAR_LENGTH ? room : 0;
  const lines = rows.map(({ cells, done }) => {
    const padded = cells.map((cell, at) => {
      const length = widths[at] ?? 0;
      return at === 0 ? cell.padEnd(length) : at === cells.length - 1 ? cell : cell.padStart(length);
    });
    if (bar > 0) padded.splice(1, 0, formatBar(done, bar));
    return padded.filter((cell, at) => cell !== '' || at === padded.length - 1).join(GAP);
  });
  return [...lines, governorLine(snapshot.governor)].map((line) =>
    line.length <= width ? line : `${line.slice(0, width - 1)}…`,
  );
}

/** Name, records, rates, share of the limit and end of one resource; `done` is the finished part. */
function cellsOf(progress: ResourceProgress, { at, governor }: ProgressSnapshot) {
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

function formatBar(done: number | null, width: number): string {
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
