import { describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { seedsOf } from '../support/length.ts';
import { freshSeed, type Random, randomFrom } from '../support/random.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../../src/server/app.ts';
import { SyncError } from '../../src/model/errors.ts';
import type { Pagination } from '../sandbox/service/pages/listing-page.ts';
import { deleteFaults, differences } from '../support/compare-copy.ts';
import { eventsFor } from '../support/delete-events.ts';
import { pushedClock, type PushedClock } from '../support/hurried-clock.ts';
import { journey, type Journey, STOPPED, requestFor, type RunChoices } from '../support/journey.ts';

const STYLES: readonly Pagination[] = ['cursor', 'page', 'offset', 'link', 'next-url'];
const MINUTE = 60_000;
const RESOURCE = 'content';

/** Everything that one story plays with. */
interface Story {
  told: string;
  stage: Journey;
  random: Random;
  service: PushedClock;
  clock: PushedClock;
  lag: number;
  /** Bodies of records that were deleted, to be restored. */
  graves: Map<string, string>;
  /** The status that the copy got last for each record that it read alone, unless the service was lying. */
  last: Map<string, number>;
  isLying: boolean;
  /** Records that were found in this step; and whether the step was stopped, so that they may not have come in. */
  found: Set<string>;
  isStopped: boolean;
}

/**
 * A service in which records are written, deleted and restored while it is copied by walks and events, with listings
 * that lag, faults, kills and times in which no record can be read alone. At every step no row is marked as deleted
 * whose record was there when it was last read; in the end, after one quiet sweep, the copy is the service.
 */
async function deleteStory(seed: number): Promise<void> {
  const random = randomFrom(seed);
  const story = await setStage(seed, random);
  await run(story, 'backfill');
  for (let step = random.whole(5, 9); step > 0; step -= 1) {
    story.isLying = random.chance(0.2);
    story.found.clear();
    story.isStopped = false;
    spoil(story);
    await (random.chance(0.7) ? walkStep(story) : eventStep(story));
    await look(story);
    story.service.push(random.whole(0, 90 * MINUTE));
  }
  await endQuietly(story);
}

/** Of the service's clock and of ours. */
const START = '2024-03-01T00:00:00Z';
/** So much faster runs our clock. */
const SPEED = 50;

async function setStage(seed: number, random: Random): Promise<Story> {
  const style = random.pick(STYLES);
  const records = random.whole(20, 80);
  const lag = random.chance(0.4) ? random.whole(20, 250) : 0;
  const service = pushedClock(START);
  const isGuarded = random.chance(0.3);
  const stage = await journey({
    database: SQLITE,
    base: style === 'cursor' ? 'content-service' : `content-service-${style}`,
    sandbox: { generate: { [RESOURCE]: records }, pagination: style, visibilityLag: lag, clock: service },
    profile: { resources: { [RESOURCE]: { page: { size: random.whole(3, 20) }, history: 'all' } } },
    source: { resources: [RESOURCE], deletes: isGuarded ? {} : { max_part: 1, max_rows: 10_000 } },
  });
  const told = `SEED=${seed}: ${style}, ${records} records, lag ${lag} ms, guard ${isGuarded ? 'on' : 'off'}`;
  const rest = { graves: new Map<string, string>(), last: new Map<string, number>(), isLying: false };
  const step = { found: new Set<string>(), isStopped: false };
  return { told, stage, random, service, clock: pushedClock(START, SPEED), lag, ...rest, ...step };
}

/** What goes wrong in the next step. */
function spoil({ stage, random, isLying }: Story): void {
  const { faults } = stage.sandbox;
  faults.clear();
  const items = `/v1/${RESOURCE}/`;
  if (isLying) faults.add({ fault: 'status', status: 404, path: items });
  const seed = (): number => random.whole(1, 1_000_000);
  if (random.chance(0.3)) faults.add({ fault: 'status', status: 500, path: items, probability: 0.4, seed: seed() });
  if (random.chance(0.2)) faults.add({ fault: 'reset', probability: 0.2, seed: seed() });
  if (random.chance(0.2)) faults.add({ fault: 'status', status: 503, probability: 0.2, seed: seed() });
  if (random.chance(0.2)) faults.add({ fault: 'missing-records', count: 2, probability: 0.5, seed: seed() });
}

/** A run during which records come and go, events arrive, and which may be stopped at any moment. */
async function walkStep(story: Story): Promise<void> {
  const { random } = story;
  const stop = new AbortController();
  const kill = (): void => stop.abort(STOPPED);
  if (random.chance(0.7)) edit(story);
  const app = await open(story);
  const events: Promise<void>[] = [];
  const page = (): void => {
    if (random.chance(0.3)) edit(story);
    if (random.chance(0.15)) events.push(event(story, app, stop.signal));
    if (random.chance(0.03)) kill();
  };
  const timer = random.chance(0.25) ? setTimeout(kill, random.whole(5, 80)) : undefined;
  try {
    const command = random.pick(['backfill', 'sync'] as const);
    await app.sync(requestFor(app, command, { signal: stop.signal, watcher: { page } }));
    await Promise.all(events);
  } finally {
    clearTimeout(timer);
    story.isStopped = stop.signal.aborted;
    await Promise.allSettled(events);
    await app.close();
  }
}

async function eventStep(story: Story): Promise<void> {
  const { random } = story;
  const app = await open(story);
  try {
    for (let count = random.whole(1, 4); count > 0; count -= 1) {
      if (random.chance(0.6)) edit(story);
      await event(story, app, new AbortController().signal);
    }
  } finally {
    await app.close();
  }
}

/** An event about some record, true or false: it may say that one is gone which is there. */
async function event({ stage, random, clock, graves }: Story, app: App, signal: AbortSignal): Promise<void> {
  const ids = [...graves.keys(), ...[...stage.sandbox.store.list(RESOURCE)].map(({ id }) => id)];
  if (ids.length === 0) return;
  const id = random.chance(0.4) && graves.size > 0 ? random.pick([...graves.keys()]) : random.pick(ids);
  const events = await eventsFor(app, clock, signal);
  try {
    await events.told(id);
  } catch (error) {
    // What the service's faults let fail would be tried again by a drain; a walk finds it as well.
    if (!(error instanceof SyncError)) throw error;
  } finally {
    await events.close();
  }
}

function edit({ stage, random, service, graves }: Story): void {
  const { store } = stage.sandbox;
  for (let count = random.whole(1, 4); count > 0; count -= 1) {
    const records = [...store.list(RESOURCE)];
    const roll = random.next();
    const updated_at = new Date(service.now()).toISOString();
    if (roll < 0.2 || records.length < 5) {
      store.put(RESOURCE, { id: `n${random.whole(1, 999)}`, updated_at, tags: ['new', 'one'] });
    } else if (roll < 0.4) {
      const { text } = random.pick(records);
      store.put(RESOURCE, { ...JSON.parse(text), updated_at, tags: [String(random.whole(1, 9))] });
    } else if (roll < 0.75 || graves.size === 0) {
      const { id, text } = random.pick(records);
      graves.set(id, text);
      store.remove(RESOURCE, id);
    } else {
      const [id, text] = random.pick([...graves]);
      graves.delete(id);
      store.put(RESOURCE, random.chance(0.5) ? text : { ...JSON.parse(text), updated_at, back: true });
    }
    for (const { id } of store.list(RESOURCE)) graves.delete(id);
  }
}

/** What must hold after every step. */
async function look({ told, stage, last, found, isStopped }: Story): Promise<void> {
  const deleted = await stage.column<string>(`SELECT id FROM ${RESOURCE} WHERE _deleted_at IS NOT NULL`);
  // Who is stopped between reading a record and writing it knows no more than before.
  for (const id of isStopped ? deleted.filter((each) => found.has(each)) : []) last.set(id, 404);
  const wrong = deleted.filter((id) => last.get(id) !== 404);
  const faults = await stage.read((db) => deleteFaults(db, RESOURCE));
  expect({ told, wrong, faults }).toEqual({ told, wrong: [], faults: [] });
}

/** Listens to what the app gets for single records. */
const heardBy =
  (story: Story): NonNullable<RunChoices['attempted']> =>
  ({ url, status, outcome }) => {
    const id = new RegExp(`/v1/${RESOURCE}/([^/?]+)$`).exec(url)?.[1];
    // A 200 whose body was cut off says nothing yet.
    const isFound = status === 200 && outcome === 'ok';
    if (id === undefined || (!isFound && (status !== 404 || story.isLying))) return;
    if (isFound) story.found.add(decodeURIComponent(id));
    story.last.set(decodeURIComponent(id), status);
  };

function open(story: Story): Promise<App> {
  return story.stage.open(story.clock, heardBy(story));
}

async function run(story: Story, command: 'backfill' | 'sync') {
  return (await story.stage.run(command, { clock: story.clock, attempted: heardBy(story) })).resources[0];
}

/** Quiet: what is unfinished is finished, one whole walk, and a person lets go on what is held. */
async function endQuietly(story: Story): Promise<void> {
  const { told, stage, lag } = story;
  stage.sandbox.faults.clear();
  story.isLying = false;
  await delay(lag + 20);
  await run(story, 'sync');
  const report = await run(story, 'backfill');
  if ((report?.held ?? 0) > 0) await releaseAll(story);
  await look(story);
  const found = await stage.read((db) => differences(db, stage.sandbox.store, { resources: [RESOURCE] }));
  const left = await stage.all('SELECT * FROM _sync_seen');
  const waiting = await stage.all("SELECT * FROM _sync_suspects WHERE state <> 'settled'");
  expect({ told, found, left, waiting }).toEqual({ told, found: [], left: [], waiting: [] });
}

async function releaseAll(story: Story): Promise<void> {
  await story.stage.write("UPDATE _sync_suspects SET state = 'released' WHERE state = 'held'");
  const app = await open(story);
  await app.confirmReleased(RESOURCE, new AbortController().signal);
  await app.close();
}

describe('G14 records that are deleted and come back while they are copied', () => {
  it.for(seedsOf([freshSeed()], 400))('are deleted in the copy only when they are gone (SEED=%d)', deleteStory);
});
