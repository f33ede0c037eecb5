import { expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { endsOf, expectWholeCopy, onStage, rowsIn, type Ended, type Stage, type StageOptions } from './stage.ts';
import { IS_LONG } from '../support/length.ts';

/** One fault of the catalogue, played against the whole product. */
export interface FaultRow {
  /** Begins with the number in the catalogue. */
  title: string;
  /** What the service does wrong while `content` is listed, unless the script names another resource. */
  faults: FaultScript[];
  stage?: StageOptions;
  /** How `content` ends, as `ok` or `failed <code>`; images and analytics end `ok`. */
  ends: string;
  /** Rows of `content` afterwards; all 16 where absent. */
  rows?: number;
  /** What else the run under the fault must show, and what that must be. */
  shows?: [look: (stage: Stage, ended: Ended) => unknown, expected: unknown];
}

const EXIT_CODES: Readonly<Record<string, number>> = { ok: 0, failed: 3, partial: 3, deferred: 4 };

/** Declares a test per row: the run under the fault ends as said, and a quiet one afterwards repairs everything. */
export function testFaults(rows: readonly FaultRow[]): void {
  it.concurrent.each(shortly(rows))('$title', async (row) => {
    await onStage(row.stage ?? {}, (stage) => playRow(stage, row));
  });
}

/** In the short form the first row of each number and end. */
function shortly(rows: readonly FaultRow[]): readonly FaultRow[] {
  const kinds = rows.map(({ title, ends }) => `${title.split(' ')[0]} ${ends}`);
  return rows.filter((_, at) => IS_LONG || kinds.indexOf(kinds[at] ?? '') === at);
}

async function playRow(stage: Stage, row: FaultRow): Promise<void> {
  for (const fault of row.faults) stage.sandbox.faults.add({ resource: 'content', ...fault });
  const ended = await stage.backfill();
  expect(endsOf(ended)).toEqual({ content: row.ends, images: 'ok', analytics: 'ok' });
  expect(ended.code).toBe(EXIT_CODES[row.ends.split(' ')[0] ?? '']);
  expect(await rowsIn(stage)).toBe(row.rows ?? 16);
  expect(await isComplete(stage)).toBe(row.ends === 'ok' || row.ends === 'partial');
  const [look, expected] = row.shows ?? [() => undefined, undefined];
  expect(await look(stage, ended)).toEqual(expected);

  stage.sandbox.faults.clear();
  const quiet = await stage.sync();
  expect(endsOf(quiet)).toEqual({ content: 'ok', images: 'ok', analytics: 'ok' });
  expect(quiet.code).toBe(0);
  await expectWholeCopy(stage);
}

/** True where the checkpoint says that all of `content` was read. */
async function isComplete(stage: Stage): Promise<boolean> {
  const [row] = await stage.query<{ last_full_at: string | null }>(
    `SELECT last_full_at FROM _sync_checkpoints WHERE resource = 'content'`,
  );
  return row !== undefined && row.last_full_at !== null;
}
