import { expect, it } from 'vitest';
import { powerCuts } from './power-cut.ts';
import { noTracing } from './traced-disk.ts';

/** `DELIVERIES=40` for a shorter one. */
const deliveries = Number(process.env['DELIVERIES'] ?? 300);

it(`F121 ${deliveries} deliveries: none is done before its row would survive a power cut`, async (context) => {
  const reason = noTracing();
  if (reason !== null) context.skip(reason);
  const { cuts, done, lost } = await powerCuts(deliveries);
  console.log({ cuts, done });
  expect([...lost]).toEqual([]);
  expect(done).toBe(deliveries);
});
