import { expect, it } from 'vitest';
import { powerCuts } from './power-cut.ts';
import { noTracing } from './traced-disk.ts';

it('F121 a delivery is not done before its row would survive a power cut', { timeout: 180_000 }, async (context) => {
  const reason = noTracing();
  if (reason !== null) context.skip(reason);
  const { cuts, done, lost } = await powerCuts(6);
  expect([...lost]).toEqual([]);
  expect(done).toBe(6);
  expect(cuts).toBeGreaterThan(6);
});
