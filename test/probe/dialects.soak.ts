import { expect, it } from 'vitest';
import { describeDialect } from '../support/dialect/dialect.ts';
import { isEqual, tellProbed } from './dialects.ts';

const COUNT = Number(process.env['PROBE_SEEDS'] ?? 300);

it(`of ${COUNT} random services at least nine in ten are copied by the profile that probe finds`, async () => {
  const failed: string[] = [];
  for (let seed = 1_001; seed <= 1_000 + COUNT; seed += 1) {
    const told = await tellProbed(seed);
    const about = `SEED=${seed} ${describeDialect(told.dialect)}\n${told.yaml}\n${told.broken.join('\n')}\n${JSON.stringify(told.runs)}`;
    if (told.requests <= 60 && isEqual(told)) continue;
    // What is not right is not called proved.
    if (told.requests > 60 || told.result?.isProved === true) throw new Error(about);
    failed.push(about);
  }
  if (failed.length > COUNT / 10) throw new Error(failed.join('\n\n'));
  expect(failed.length).toBeLessThanOrEqual(COUNT / 10);
});
