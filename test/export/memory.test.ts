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

/** Runs an export as a process and returns its peak memory in megabytes. */
async function measured(stage: OwnStage, ...args: string[]): Promise<{ peak: number }> {
  const command = stage.start('export', ...args);
  const over = command.ended.then(() => true);
  let peak = 0;
  while (!(await Promise.race([delay(20, false), over]))) peak = Math.max(peak, peakOf(command.pid));
  const { code, stderr } = await command.ended;
  expect([code, stderr]).toEqual([0, '']);
  return { peak };
}

function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}

const EXPORTS = [
  ['parquet', 'month'],
  ['parquet', 'whole', '--no-partitions'],
  ['ndjson', 'lines', '--no-partitions'],
].slice(0, longOrShort(3, 2));

describe.skipIf(process.platform !== 'linux').for(longOrShort(DATABASES, [SQLITE]))(
  'the memory of an export from $name',
  (database) => {
    it('does not grow with the rows, by month or as a whole', { timeout: 3_600_000 }, async () => {
      const stage = await ownStage(database, monthly('x'.repeat(200)));
      const peaks = new Map<string, number>();
      for (const count of [SMALL, LARGE]) {
        await stage.write("DELETE FROM content WHERE id LIKE 'r%'");
        await manyRows(stage, count);
        for (const [format = '', folder = '', ...options] of EXPORTS) {
          const { peak } = await measured(stage, format, folder, ...options);
          const before = peaks.get(folder) ?? peak;
          peaks.set(folder, before);
          expect({ count, folder, more: peak - before < MOST_MORE }).toMatchObject({ more: true });
          expectWhole(path.join(stage.folder, folder));
          expect(tableIn(path.join(stage.folder, folder), 'content_live').rows).toBe(count + 10);
        }
        const { files } = tableIn(path.join(stage.folder, 'whole'), 'content_live');
        expect(Math.max(...files.map(({ rows }) => rows))).toBeLessThanOrEqual(101_000);
        expect(Math.max(...files.map(({ bytes }) => bytes))).toBeLessThan(64 * MEGABYTE);
      }
    });
  },
);
