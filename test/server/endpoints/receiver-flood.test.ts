import { expect, it } from 'vitest';
import { longOrShort } from '../../support/length.ts';
import { freshSeed, randomFrom } from '../../support/random.ts';
import { flood, HALF_MS, malformed, vectorDeliveries } from './receiver-flood.ts';
import { receiverStage, send, signed } from './receiver-stage.ts';

const seed = freshSeed();
const COUNT = longOrShort(100_000, 1_500);

it(`G8 nothing that is malformed is accepted or does harm, and what is signed gets through (SEED=${seed})`, async (context) => {
  const deliveries = vectorDeliveries();
  if (deliveries.length === 0) context.skip('the shared webhook vectors are not there');
  const stage = await receiverStage();
  const random = randomFrom(seed);
  const flooding = flood(stage.port, { count: COUNT, connections: 16, patienceMs: HALF_MS }, () =>
    malformed(deliveries, random),
  );
  const answers: number[] = [];
  for (let number = 0; number < 20; number += 1) answers.push((await send(stage.port, signed(stage.source))).status);
  const { statuses } = await flooding;
  expect(Object.keys(statuses).filter((status) => Number(status) >= 500 || /^[123]/.test(status))).toEqual([]);
  expect(answers).toEqual(Array(20).fill(202));
  expect((await stage.rows()).length).toBe(20);
  expect(stage.notes).toEqual([]);
});
