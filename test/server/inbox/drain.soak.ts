import { expect, it } from 'vitest';
import { differences } from '../../support/compare-copy.ts';
import { draining } from '../../support/draining.ts';
import { journey } from '../../support/journey.ts';
import { storm } from './storm.ts';

const EVENTS_PER_SECOND = 5_000;
const SECONDS = 20;

it('F176 5,000 events/s for 20 s on 50 records: at most 1.1 reads per record and second, the copy equal', async () => {
  const made = await journey({ sandbox: { generate: { content: 60 } }, source: { resources: ['content'] } });
  await made.run('backfill');
  const ids = [...made.sandbox.store.list('content')].map(({ id }) => id).slice(0, 50);
  const stage = await draining(made, { concurrency: 8 });
  const rain = { rounds: SECONDS * 20, perRound: EVENTS_PER_SECOND / 20, everyMs: 50 };
  const weather = await storm(stage, made.sandbox, ids, rain);
  console.log(`coalescing: ${JSON.stringify({ ...weather, deliveries: rain.rounds * rain.perRound })}`);
  expect(weather.readsPerSecond).toBeLessThanOrEqual(1.1);
  expect(stage.errors).toEqual([]);
  expect(await made.read((db) => differences(db, made.sandbox.store, { resources: ['content'] }))).toEqual([]);
}, 120_000);
