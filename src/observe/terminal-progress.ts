// Live progress lines on a terminal.
import { formatNumber, formatDuration, formatPercent, formatRate } from './format-values.ts';
import { type ProgressSnapshot, type RateLimiterProgress, computeRates, type ResourceProgress } from './progress.ts';

/** Standard error, or a stream of a test. */
type LiveStream = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number };

const MIN_REDRAW_MS = 100;
const CLEAR_BELOW = '\x1b[J';

/**
 * Shows live progress on a terminal, and nothing elsewhere: there the log shows the progress. The cursor is never hidden
 * and stays below the lines, so that a killed process leaves a usable terminal.
 */
export function createTerminalProgress({ stream, clock }: { stream: LiveStream; clock: { monotonic(): number } }) {
  /** Number of lines on the terminal, above the cursor. */
  let drawn = 0;
  let drawnAt = Number.NEGATIVE_INFINITY;
  let pending: ProgressSnapshot | null = null;
  const draw = (snapshot: ProgressSnapshot): void => {
    // A terminal of unknown size reports 0.
    const [columns, rows] = [stream.columns || 80, stream.rows || 24];
    // The last column stays empty, because some terminals wrap there, which would add a line.
    const lines = progressLines(snapshot, columns - 1).slice(0, Math.max(1, rows - 1));
    const up = drawn === 0 ? '' : `\x1b[${drawn}A\r`;
    stream.write(up + lines.map((line) => `${line}\x1b[K\n`).join('') + CLEAR_BELOW);
    drawn = lines.length;
    drawnAt = clock.monotonic();
    pending = null;
  };
  return {
    /** Redraws the lines, at most ten times a second. */
    update(snapshot: ProgressSnapshot): void {
      pending = snapshot;
      if (stream.isTTY === true && clock.monotonic() - drawnAt >= MIN_REDRAW_MS) draw(snapshot);
    },
    finish(): void {
      if (stream.isTTY === true && pending !== null) draw(pending);
    },
  };
}

const GAP = '  ';
const MAX_NAME_LENGTH = 24;

/** Formats one line per resource and one for the rate limiter, none longer than `width`. */
function progressLines(snapshot: ProgressSnapshot, width: number): string[] {
  const names = snapshot.resources.map(({ resource }) =>
    resource.length > MAX_NAME_LENGTH ? `${resource.slice(0, MAX_NAME_LENGTH - 1)}…` : resource,
  );
  const nameWidth = Math.max(0, ...names.map((name) => name.length));
  const lines = snapshot.resources.map((progress, at) =>
    [(names[at] ?? '').padEnd(nameWidth), ...describeProgress(progress, snapshot)].join(GAP),
  );
  return [...lines, rateLimiterLine(snapshot.rateLimiter)].map((line) =>
    line.length <= width ? line : `${line.slice(0, width - 1)}…`,
  );
}

/** Records, rates, share of the limit and end of one resource. */
function describeProgress(progress: ResourceProgress, { at, rateLimiter }: ProgressSnapshot): string[] {
  const { records, total, state, began } = progress;
  if (began === null) return [state];
  const { recordsPerSecond, requestsPerSecond, done, etaSeconds } = computeRates(progress, at);
  const { allowedPerSecond: allowed } = rateLimiter;
  return [
    total === null ? formatNumber(records) : `${formatNumber(records)}/${formatNumber(total)}`,
    ...(done === null ? [] : [formatPercent(Math.min(done, 1))]),
    `${formatRate(recordsPerSecond)}/s`,
    `${formatRate(requestsPerSecond)} req/s`,
    ...(allowed === null ? [] : [`limit ${formatPercent(requestsPerSecond / allowed)}`]),
    endOf(progress, etaSeconds),
  ];
}

/** The remaining time or what it waits for, or the final state and the duration. */
function endOf({ began, endedAt, state, note }: ResourceProgress, etaSeconds: number | null): string {
  if (began !== null && endedAt !== null) return `${state} ${formatDuration((endedAt - began.at) / 1_000)}`;
  if (note !== null) return note;
  return etaSeconds === null ? 'ETA ?' : `ETA ${formatDuration(etaSeconds)}`;
}

function rateLimiterLine({ requests, limited, allowedPerSecond, pausedForMs }: RateLimiterProgress): string {
  const texts = [`${formatNumber(requests)} requests`, `${formatNumber(limited)} limited`];
  if (allowedPerSecond !== null) texts.push(`limit ${formatRate(allowedPerSecond)}/s`);
  if (pausedForMs > 0) texts.push(`paused for ${formatDuration(pausedForMs / 1_000)}`);
  return texts.join(GAP);
}
