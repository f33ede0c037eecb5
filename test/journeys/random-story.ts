import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { SyncError } from '../../src/model/errors.ts';
import type { Pagination } from '../sandbox/service/pages/listing-page.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { RunReport } from '../../src/sync/report.ts';
import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import { pushedClock } from '../support/hurried-clock.ts';
import { journey, type Journey } from '../support/journey.ts';
import { randomFrom, type Random } from '../support/random.ts';
import { wound } from '../support/wound-database.ts';
import { addRandomFaults, randomEditor, type Editor } from './random-service.ts';

const HOUR = 3_600_000;
const STYLES: readonly Pagination[] = ['cursor', 'page', 'offset', 'link', 'next-url'];
/** Of the service's clock and of ours; the service's is then put forward now and then, also by more than is believed. */
const START = '2024-03-01T00:00:00Z';
/** So much faster runs our clock, and that of the database. */
const SPEED = 50;

/** Where pages are counted, a record that moves while they are walked can slip past the walk. */
const COUNTED: ReadonlySet<Pagination> = new Set(['page', 'offset']);

/**
 * A service that changes while it is copied, by several runs that meet faults and interruptions. Then everything is
 * quiet: what is unfinished is finished, and one more run must make the warehouse what the service is.
 */
export async function randomStory(database: TestDatabase, seed: number): Promise<void> {
  const random = randomFrom(seed);
  const style = random.pick(STYLES);
  const service = pushedClock(START);
  const records = random.whole(0, 60);
  const stage = await journey({
    database: wound(database, SPEED),
    base: style === 'cursor' ? 'content-service' : `content-service-${style}`,
    sandbox: {
      generate: { content: records },
      pagination: style,
      sort: random.pick(['updated', 'none']),
      total: random.chance(0.5),
      clock: service,
    },
    profile: profileWith(random.whole(2, 15)),
    source: { resources: ['content'] },
  });
  const editor = randomEditor(stage.sandbox, service, random);
  const told = `seed ${seed} on ${database.name}: ${style}, ${records} records at first`;
  const clock = pushedClock(START, SPEED);
  for (let run = random.whole(2, 4); run > 0; run -= 1) {
    await noisyRun({ stage, random, editor, clock, isCounted: COUNTED.has(style) });
  }

  stage.sandbox.faults.clear();
  // Never more than the quiet run itself may be: a backfill here would hide what a sync has missed.
  const quiet: SyncCommand = COUNTED.has(style) ? 'backfill' : 'sync';
  await stage.run(quiet, { clock });
  editor.edit();
  editor.pass(random.whole(0, 5 * HOUR));
  const report = await stage.run(quiet, { clock });
  const found = await stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }));
  const isLone = style === 'link' && [...stage.sandbox.store.list('content')].length === 1;
  const status = isLone && isUnproved(report) ? 'partial' : 'ok';
  expect({ told, status: report.status, differences: found }).toEqual({ told, status, differences: [] });
}

/** Of one record alone there is no shorter page to ask for, and so no proof that a header left out marks the end. */
function isUnproved({ resources }: RunReport): boolean {
  const codes = resources[0]?.warnings?.map(({ code }) => code);
  return isDeepStrictEqual(codes, ['end_unproved']);
}

function profileWith(size: number): Record<string, unknown> {
  return { resources: { content: { page: { size } } } };
}

interface Story {
  stage: Journey;
  random: Random;
  editor: Editor;
  clock: Clock;
  isCounted: boolean;
}

/** One run while the service changes under it; it may fail, be interrupted, or find its page size changed. */
async function noisyRun({ stage, random, editor, clock, isCounted }: Story): Promise<void> {
  if (random.chance(0.2)) stage.setProfile(profileWith(random.whole(2, 15)));
  stage.sandbox.faults.clear();
  addRandomFaults(stage.sandbox, random, !isCounted);
  if (random.chance(0.7)) editor.edit();
  const stop = new AbortController();
  const page = (): void => {
    if (random.chance(0.4)) editor.edit();
    if (random.chance(0.04)) stop.abort(new SyncError('interrupted', 'stopped by the story', { recovery: 'stop' }));
  };
  const command = random.pick(['backfill', 'sync'] as const);
  await stage.run(command, { clock, signal: stop.signal, watcher: { page } });
  editor.pass(random.whole(0, 3 * HOUR));
}
