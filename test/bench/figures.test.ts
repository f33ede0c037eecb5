import { expect, it } from 'vitest';
import { failed, figureLine, losses, valuesOf, type Figure } from './figures.ts';

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
