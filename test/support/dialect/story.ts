import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { POSTGRES, SQLITE, type TestDatabase } from '../databases.ts';
import { randomFrom, type Random } from '../random.ts';
import type { Difference } from '../world/copy.ts';
import { Runner, type Command, type Run } from '../world/runner.ts';
import { WorldClock } from '../world/world-clock.ts';
import { isCopied, stored } from './bodies.ts';
import { drawDialect, type Dialect } from './dialect.ts';
import { PostEditor } from './editor.ts';
import { Posts } from './posts.ts';
import { profileOf, type WrittenProfile } from './profile.ts';
import { brokenPromises } from './promises.ts';
import { DialectService } from './service.ts';
import { isSayable, SPOKEN } from './spoken.ts';
import { differencesAfterEvents } from './told.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = '2026-03-02T06:00:00.000Z';
/** On Postgres a process looks after its budget again and again while it waits: that must not make the time fly. */
const HURRY = { sqlite: 0, postgres: 50 } as const;

/** What came of a seed. */
export interface Outcome {
  seed: number;
  database: TestDatabase['name'];
  dialect: Dialect;
  profile: WrittenProfile;
  runs: readonly Run[];
  /** In the end there was nothing to copy. */
  isEmpty: boolean;
  broken: readonly { promise: string; differences: readonly Difference[]; run: number }[];
  log: readonly string[];
}

interface Story {
  dialect: Dialect;
  random: Random;
  clock: WorldClock;
  posts: Posts;
  editor: PostEditor;
  service: DialectService;
  runner: Runner;
  database: TestDatabase;
  folder: string;
  /** Of the copy. */
  address: string;
  log: string[];
  runs: Run[];
  broken: { promise: string; differences: Difference[]; run: number }[];
  /** When the first of the runs began that have not ended their walk since. */
  walkedSince: number | null;
}

/**
 * A service that speaks a dialect drawn from a seed is copied by the profile that follows from the draw: a backfill and
 * syncs while it moves, and, once it is quiet, a sync and a backfill. After each run the copy is held against the
 * service's own records.
 */
export async function tellDialect(seed: number): Promise<Outcome> {
  const random = randomFrom(seed);
  const dialect = drawSayable(random);
  const profile = profileOf(dialect);
  const database = random.chance(0.2) && POSTGRES.missing === null ? POSTGRES : SQLITE;
  const story = await setStage(dialect, profile, database, random);
  await playNoisily(story);
  await playQuietly(story);
  const { runs, broken, service, posts } = story;
  const isEmpty = ![...posts.live.values()].some(isCopied);
  return { seed, database: database.name, dialect, profile, runs, isEmpty, broken, log: service.log };
}

/** What each variant can say alone, they may not be able to say together. */
function drawSayable(random: Random): Dialect {
  for (;;) {
    const dialect = drawDialect(random, SPOKEN);
    if (isSayable(dialect)) return dialect;
    const plainer = { ...dialect, isMixed: false };
    if (isSayable(plainer)) return plainer;
  }
}

async function setStage(
  dialect: Dialect,
  profile: WrittenProfile,
  database: TestDatabase,
  random: Random,
): Promise<Story> {
  const clock = new WorldClock(START, HURRY[database.name]);
  const log: string[] = [];
  const posts = new Posts((post) => stored(dialect, post));
  const editor = new PostEditor(posts, dialect, random, log);
  const service = new DialectService({ dialect, posts, editor, clock, random, log });
  editor.fill(dialect.records, clock.now() - 240 * HOUR, clock.now() - 2 * HOUR);
  const base_url = await service.start();
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-dialect-'));
  onTestFinished(async () => {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const { setting: warehouse, close } = await database.open(folder);
  onTestFinished(close);
  const deletes = { max_rows: 10_000, max_part: 1 };
  const blog = { base_url, auth: dialect.auth.settings, profile: './profile.yaml', deletes };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  const config = { warehouse, log: { level: 'silent' }, sources: { blog } };
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
  const runner = new Runner(folder, clock, service);
  const address = warehouse.replace('{source}', 'blog');
  const state = { runs: [], broken: [], walkedSince: null };
  return { dialect, random, clock, posts, editor, service, runner, database, folder, address, log, ...state };
}

async function playNoisily(story: Story): Promise<void> {
  const { random, clock, service } = story;
  service.isBusy = true;
  await play(story, 'backfill', false);
  for (let more = random.whole(1, 3); more > 0; more -= 1) {
    clock.push(random.pick([1_000, MINUTE, 20 * MINUTE, 5 * HOUR]));
    editSome(story, 5);
    await play(story, random.pick(['sync', 'sync', 'sync', 'backfill']), false);
  }
}

/** Some last changes, and then time: so much that whatever was late has come. */
async function playQuietly(story: Story): Promise<void> {
  const { random, clock, service, dialect } = story;
  service.isBusy = false;
  editSome(story, 5);
  clock.push(dialect.lateMs + dialect.overlapMs + random.pick([MINUTE, HOUR, 30 * HOUR]));
  await play(story, 'sync', false);
  const differences = await differencesAfterEvents(story, random.whole(1, 4));
  if (differences.length > 0)
    story.broken.push({ promise: 'an event ends in a row', differences, run: story.runs.length });
  editSome(story, 3);
  clock.push(dialect.lateMs + dialect.overlapMs + HOUR);
  await play(story, 'backfill', false);
  // Where nothing can be read alone, a second walk confirms what the first one missed.
  clock.push(dialect.overlapMs + HOUR);
  await play(story, 'backfill', true);
}

function editSome({ editor, service, random }: Story, most: number): void {
  for (let edits = random.whole(0, most); edits > 0; edits -= 1) editor.edit(service.now());
}

async function play(story: Story, command: Command, isLast: boolean): Promise<void> {
  const { service, random, runner, runs, posts, dialect } = story;
  const startedAt = service.now();
  const stopAfter = service.isBusy && random.chance(0.15) ? random.whole(1, 6) : null;
  const before = posts.moves;
  const run = await runner.run(command, stopAfter);
  runs.push({ ...run, moves: posts.moves - before });
  const walkedSince = story.walkedSince ?? startedAt;
  // Of other places a copy must be right although the service refuses one.
  const isOkElsewhere =
    dialect.refused !== null && run.said.length > 0 && run.said.every((text) => text.startsWith('listing_unread:'));
  const isOk = run.status === 'ok' || (run.status === 'partial' && isOkElsewhere);
  const ended = { mode: run.mode, isOk, walkedSince, isLast };
  story.walkedSince = run.status === 'ok' || run.status === 'partial' ? null : walkedSince;
  const broken = await story.database.read(story.address, (db) => brokenPromises(db, ended, { dialect, posts }));
  for (const { promise, differences } of broken) story.broken.push({ promise, differences, run: runs.length });
}
