import { expect, it } from 'vitest';
import { describeDialect } from '../support/dialect/dialect.ts';
import { tellProbed } from './dialects.ts';

const FROM = Number(process.env['FROM'] ?? 1);
const SEEDS = Array.from({ length: Number(process.env['SEEDS'] ?? 6) }, (_, at) => at + FROM);

it.for(SEEDS)('seed %d', async (seed) => {
  const told = await tellProbed(seed);
  const last = told.runs.map(({ status, mode }) => `${status}/${mode}`).join(' ');
  const bad = told.broken.length > 0 || told.runs.some(({ status }) => status !== 'ok') || told.result === null;
  console.log(
    `SEED ${seed} ${bad ? 'BAD' : 'GOOD'} ${told.requests} ${told.result?.isProved} ${last} ${told.broken[0]?.slice(0, 200) ?? ''} :: ${told.runs
      .flatMap(({ said }) => said)
      .map((s) => s.slice(0, 160))
      .slice(0, 2)
      .join(' | ')}`,
  );
  if (bad || process.env['SHOW']) console.log(describeDialect(told.dialect), '\n', told.yaml);
  expect(told.requests).toBeGreaterThan(0);
});
