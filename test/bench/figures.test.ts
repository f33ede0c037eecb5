import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { failed, figureLine, losses, valuesOf, type Figure } from './figures.ts';
import { PLACES, stageOf, stageTable, stageTimes, type CpuProfile } from './stages.ts';

const ratio: Figure = { name: 'ratio', value: 0.8, better: 'more', floor: 0.75, aim: 0.95 };
const cpu: Figure = { name: 'cpu', value: 5.1, unit: 's', better: 'less', floor: 5, aim: 4 };
const wall: Figure = { name: 'wall', value: 1_234.5, unit: 'ms', better: 'less', isLoose: true };

it('a figure says whether it reaches its floor and its aim', () => {
  expect([ratio, cpu, wall].map(figureLine)).toEqual([
    'ratio: 0.80, floor 0.75 passed, aim 0.95 missed',
    'cpu: 5.10 s, floor 5 FAILED, aim 4 missed',
    'wall: 1,235 ms',
  ]);
  expect(failed([ratio, cpu, wall, { ...ratio, value: Number.NaN }]).map(({ name }) => name)).toEqual(['cpu', 'ratio']);
});

it('a loss of a tenth against the stored run is told, whichever way is better, and never that of a wall time', () => {
  expect(valuesOf([ratio, cpu, wall])).toEqual({ ratio: 0.8, cpu: 5.1 });
  expect(losses([ratio, cpu, wall], { ratio: 0.8, cpu: 5.1, wall: 1 })).toEqual([]);
  expect(losses([ratio, cpu], { ratio: 0.87, cpu: 4.7 })).toEqual([]);
  expect(losses([{ ...ratio, value: 0.9 }, cpu], { ratio: 1, cpu: 4.25 })).toEqual([
    'ratio: 0.90, and 1.00 in the stored run: 10 % lost',
    'cpu: 5.10, and 4.25 in the stored run: 20 % lost',
  ]);
});

it('stages are told by files and folders that are there', () => {
  const root = path.join(import.meta.dirname, '../..');
  expect(Object.keys(PLACES).filter((place) => !existsSync(path.join(root, place)))).toEqual([]);
  expect(['src/http/client.ts', 'src/shape/records/fingerprint.ts', 'src/httpx.ts', 'node:fs'].map(stageOf)).toEqual([
    'read',
    'hash',
    null,
    null,
  ]);
});

const frame = (functionName: string, url = '') => ({ functionName, url, lineNumber: 0, columnNumber: 0 });

it('what a function of no stage takes counts for the one that called it', () => {
  const profile: CpuProfile = {
    nodes: [
      { id: 1, callFrame: frame('(root)'), children: [2, 5, 6] },
      { id: 2, callFrame: frame('shapePage', 'src/shape/shape-page.ts'), children: [3] },
      { id: 3, callFrame: frame('now', 'node:perf_hooks'), children: [4] },
      { id: 4, callFrame: frame('hash') },
      { id: 5, callFrame: frame('(idle)') },
      { id: 6, callFrame: frame('tick', 'node:timers') },
    ],
    samples: [2, 3, 4, 5, 6],
    timeDeltas: [1_000, 2_000, 3_000, 4_000, 5_000],
  };
  const times = stageTimes(profile, ({ url }) => url);
  expect([times.shape, times.wait, times.other, times.write]).toEqual([6, 4, 5, 0]);
  expect(stageTable({ main: times }).split('\n')).toEqual(expect.arrayContaining(['| ms | main |', '| shape | 6 |']));
});
