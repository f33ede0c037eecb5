import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';
import { tableIn } from './read-back.ts';
import { expectWhole, manyRows, monthly } from './standing.ts';

const MEGABYTE = 1_048_576;
/** The smaller one fills what is held in memory at once already, twice over: the collector is not quick. */
const [SMALL, LARGE] = longOrShort([200_000, 1_000_000], [120_000, 200_000]);
/** What a collector leaves for later; the rows themselves would be several times that. */
const MOST_MORE = longOrShort(150, 100);

/** In the short form the second export by month is the one of more rows, and those by key are first ones. */
function timesOf(kind: string, count: number): string[] {
  const isSecond = kind === 'month' && count === LARGE;
  return longOrShort(['--full', ''], [isSecond ? '' : '--full']);
}

interface Measured {
  /** Megabytes. */
  peak: number;
  seconds: number;
}

/** Runs an export as a process and looks at its memory. */
async function measured(stage: OwnStage, ...args: string[]): Promise<Measured> {
  const began = performance.now();
  const command = stage.start('export', ...args);
  const over = command.ended.then(() => true);
  let peak = 0;
  while (!(await Promise.race([delay(20, false), over]))) peak = Math.max(peak, peakOf(command.pid));
  const { code, stderr } = await command.ended;
  expect([code, stderr]).toEqual([0, '']);
  return { peak, seconds: (performance.now() - began) / 1_000 };
}

function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}

describe.skipIf(process.platform !== 'linux').for(longOrShort(DATABASES, [SQLITE]))(
  'the memory of an export from $name',
  (database) => {
    it(
      'does not grow with the rows, by month or by key, the first time or the second',
      { timeout: 3_600_000 },
      async () => {
        const stage = await ownStage(database, monthly('x'.repeat(200)));
        const lines = ['ndjson', 'lines', '--no-partitions'];
        const kinds = [['parquet', 'month'], ['parquet', 'key', '--no-partitions'], ...longOrShort([lines], [])];
        const figures: string[] = [];
        const peaks = new Map<string, number>();
        for (const count of [SMALL, LARGE]) {
          await stage.write("DELETE FROM content WHERE id LIKE 'r%'");
          await manyRows(stage, count);
          for (const kind of kinds) {
            for (const again of timesOf(kind[1] ?? '', count)) {
              const { peak, seconds } = await measured(stage, ...kind, ...(again === '' ? [] : [again]));
              const name = `${kind.join(' ')} ${again}`;
              figures.push(`${count} rows, ${name}: ${peak.toFixed(0)} MB, ${seconds.toFixed(1)} s`);
              const compared = longOrShort(name, kind.join(' '));
              const before = peaks.get(compared);
              peaks.set(compared, before ?? peak);
              expect({ figures, more: peak - (before ?? peak) < MOST_MORE }).toMatchObject({ more: true });
            }
            const folder = path.join(stage.folder, kind[1] ?? '');
            expectWhole(folder);
            expect(tableIn(folder, 'content_live').rows).toBe(count + 10);
          }
          // Those of a table that is cut by its key are of bounded size.
          const { files } = tableIn(path.join(stage.folder, 'key'), 'content_live');
          expect(files.length).toBeGreaterThanOrEqual(Math.ceil(count / 100_250));
          expect(Math.max(...files.map(({ bytes }) => bytes))).toBeLessThan(64 * MEGABYTE);
        }
      },
    );
  },
);
