import type { Doubt } from '../../extract/guards/walk-end.ts';
import { countsOf, newMeter, type RequestMeter } from '../../http/client.ts';
import { DeferredError, SyncError, type Recovery } from '../../model/errors.ts';
import { NO_FIGURES, type RunFigures } from '../../state/runs.ts';
import type { CheckpointRow, RangeRow } from '../../warehouse/own-tables.ts';
import { NO_NOTES, type RunNotes } from '../report.ts';
import type { RunProgress } from '../run-progress.ts';

/** What the pages of a range have shown so far; stored with each of them. */
export interface RangeProgress {
  /** As that of a walk, but for its position: what its pages tell of cursor, clock and totals. */
  checkpoint: CheckpointRow;
  figures: RunFigures;
  notes: RunNotes;
  shared: RunProgress['shared'];
  meter: RequestMeter;
  /** The total that its first page told, and its last one. */
  firstTotal: number | null;
  lastTotal: number | null;
  /** The service's clock at its last page. */
  serverDate: number | null;
  /** True once it has come to its border, or the last range to the end of the listing. */
  isThrough: boolean;
  doubts: readonly Doubt[];
  /** What stopped it; null for nothing. */
  error: StoredError | null;
}

interface StoredError {
  code: string;
  message: string;
  hint: string | null;
  recovery: Recovery;
  /** Epoch milliseconds until which the service asked to be left alone; null if it did not. */
  until: number | null;
}

/** Of a range that was never begun. */
export function newRangeProgress(checkpoint: CheckpointRow): RangeProgress {
  return {
    checkpoint,
    figures: { ...NO_FIGURES },
    notes: { ...NO_NOTES },
    shared: { count: 0, example: null },
    meter: newMeter(),
    firstTotal: null,
    lastTotal: null,
    serverDate: null,
    isThrough: false,
    doubts: [],
    error: null,
  };
}

/** Written by a process of ours. */
export function progressOf({ progress }: Pick<RangeRow, 'progress'>): RangeProgress {
  const read: RangeProgress = JSON.parse(progress);
  return read;
}

/** The row as it begins again; what it has counted stays counted. */
export function begunAgain(row: RangeRow, checkpoint: CheckpointRow): RangeRow {
  const { figures, notes, shared, meter } = progressOf(row);
  const progress = { ...newRangeProgress(checkpoint), figures, notes, shared, meter };
  const again = { state: 'open', position: null, attempts: row.attempts + 1 } as const;
  return { ...row, ...again, progress: JSON.stringify(progress) };
}

/** The row of a range that an error has stopped. */
export function stoppedBy(row: RangeRow, error: SyncError, scrub: (text: string) => string): RangeRow {
  const { code, message, hint = null, recovery } = error;
  const until = error instanceof DeferredError ? error.until : null;
  const stored = { code, message: scrub(message), hint: hint === null ? null : scrub(hint), recovery, until };
  return { ...row, state: 'failed', progress: JSON.stringify({ ...progressOf(row), error: stored }) };
}

/** The error that stopped a range, as it was thrown in the process that walked it. */
export function errorOf(row: RangeRow): SyncError {
  const { error } = progressOf(row);
  const { code, message, hint, recovery, until } = error ?? UNKNOWN;
  const options = hint === null ? {} : { hint };
  return until === null
    ? new SyncError(code, message, { recovery, ...options })
    : new DeferredError(message, until, options);
}

const UNKNOWN: StoredError = { code: 'bug', message: 'a range failed', hint: null, recovery: 'stop', until: null };

type Counted = Pick<RunProgress, 'figures' | 'notes' | 'shared' | 'meter'>;

/** What all of them have counted. */
export function countedBy(ranges: readonly RangeProgress[]): Counted {
  const sum: Counted = {
    figures: { ...NO_FIGURES },
    notes: { ...NO_NOTES },
    shared: { count: 0, example: null },
    meter: newMeter(),
  };
  for (const range of ranges) add(sum, range, 1);
  return sum;
}

/** Brings the figures of a run to what its ranges have counted by now, `before` being what is in them already. */
export function countRanges(run: Counted, before: Counted, now: Counted): void {
  add(run, before, -1);
  add(run, now, 1);
  Object.assign(run.figures, countsOf(run.meter));
}

function add(to: Counted, of: Counted, sign: 1 | -1): void {
  addCounts(to.figures, of.figures, sign);
  addCounts(to.notes, of.notes, sign);
  const { outcomes, ...counts } = of.meter;
  addCounts(to.meter, counts, sign);
  addCounts(to.meter.outcomes, outcomes, sign);
  to.shared.count += sign * of.shared.count;
  to.shared.example ??= of.shared.example;
  to.shared.older ??= of.shared.older ?? null;
}

function addCounts<K extends string>(
  to: Partial<Record<K, unknown>>,
  of: Partial<Record<K, unknown>>,
  sign: 1 | -1,
): void {
  for (const [name, count] of Object.entries(of)) {
    if (typeof count !== 'number') continue;
    const known: unknown = Reflect.get(to, name);
    Reflect.set(to, name, (typeof known === 'number' ? known : 0) + sign * count);
  }
}
