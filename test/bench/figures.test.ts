import { expect, it } from 'vitest';
import { failed, figureLine, type Figure } from './figures.ts';

const ratio: Figure = { name: 'ratio', value: 0.8, better: 'more', floor: 0.75, aim: 0.95 };
const cpu: Figure = { name: 'cpu', value: 5.1, unit: 's', better: 'less', floor: 5, aim: 4 };
const wall: Figure = { name: 'wall', value: 1_234.5, unit: 'ms', better: 'less' };

it('a figure says whether it reaches its floor and its aim', () => {
  expect([ratio, cpu, wall].map(figureLine)).toEqual([
    'ratio: 0.80, floor 0.75 passed, aim 0.95 missed',
    'cpu: 5.10 s, floor 5 FAILED, aim 4 missed',
    'wall: 1,235 ms',
  ]);
  expect(failed([ratio, cpu, wall, { ...ratio, value: Number.NaN }]).map(({ name }) => name)).toEqual(['cpu', 'ratio']);
});
