import { POSTGRES, SQLITE, type TestDatabase } from '../databases.ts';
import { type Random, randomFrom } from '../random.ts';
import { type Behaviour, drawBehaviour } from './behaviour.ts';
import { type Difference, differencesFrom, historyFaults, RESOURCE, type Truth } from './oracle.ts';
import { Editor, type Entry, EntryMaker, ServiceRecords } from './records.ts';
import { writeProfile, type Written } from './profile.ts';
import { type Command, emptyCopy, requireKeptIn, type Run, type Runner, storyClock } from './runner.ts';
import { keyFor, Service } from './service.ts';
import type { WorldClock } from './world-clock.ts';
import type Database from 'better-sqlite3';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** What came of a seed. */
interface Outcome {
  seed: number;
  database: TestDatabase['name'];
  behaviour: Behaviour;
  written: Written;
  runs: readonly Run[];
  /** Records that were listed in the end. */
  records: number;
  /** Promises that runs did not keep, with the numbers of those runs. */
  broken: readonly (Broken & { run: number })[];
  /** Everything that happened, for whoever looks for the cause. */
  log: readonly string[];
}

/**
 * A service drawn from a seed is copied while it moves: a backfill, some runs, and, when everything is quiet and the
 * look-back has passed, a sync and a backfill. After each run the copy is held against the service's own records.
 */
export async function tellStory(seed: number): Promise<Outcome> {
  const random = randomFrom(seed);
  const behaviour = drawBehaviour(random);
  const written = writeProfile(behaviour, random);
  const isOnPostgres = random.chance(0.15) && POSTGRES.missing === null;
  const database = isOnPostgres ? POSTGRES : SQLITE;
  const story = await setStage(behaviour, written, database, random);
  await playNoisily(story);
  await playQuietly(story);
  const { runs, broken, service } = story;
  const { log } = service.world;
  const seen = [...story.records.entries.values()].filter(
    ({ isListed, isPublic }) => isListed && (isPublic || behaviour.key === 'right'),
  );
  return { seed, database: database.name, behaviour, written, runs, records: seen.length, broken, log };
}

interface Story {
  behaviour: Behaviour;
  written: Written;
  random: Random;
  clock: WorldClock;
  records: ServiceRecords;
  editor: Editor;
  service: Service;
  runner: Runner;
  runs: Run[];
  broken: (Broken & { run: number })[];
  /** The service's time when the first of the runs began that have not ended their walk since. */
  walkedSince: number | null;
  database: TestDatabase;
  /** Of the copy. */
  address: string;
}

async function setStage(
  behaviour: Behaviour,
  written: Written,
  database: TestDatabase,
  random: Random,
): Promise<Story> {
  const clock = storyClock(database);
  const records = new ServiceRecords();
  const log: string[] = [];
  const editor = new Editor(records, new EntryMaker(behaviour, random), random, log);
  const service = new Service({ behaviour, records, editor, clock, random, log });
  editor.fill(behaviour.records, service.now() - 240 * HOUR, service.now() - 2 * HOUR);
  const base_url = await service.start();
  const concurrency = random.pick([1, 1, 4, 8]);
  const profile = {
    version_prefix: '/v1',
    http: { concurrency, attempts: 2 },
    resources: { [RESOURCE]: written.resource },
  };
  const deletes = random.chance(0.8) ? { max_rows: 10_000, max_part: 1 } : {};
  const source = { base_url, auth: { type: 'api_key', key: keyFor(behaviour) }, deletes };
  const { runner, address } = await emptyCopy(database, clock, service, { profile, source });
  const state = { runs: [], broken: [], walkedSince: null };
  return { behaviour, written, random, clock, records, editor, service, runner, database, address, ...state };
}

async function playNoisily(story: Story): Promise<void> {
  const { random, clock, service, editor, behaviour } = story;
  service.isBusy = true;
  await play(story, 'backfill', false);
  for (let more = random.whole(0, 3); more > 0; more -= 1) {
    clock.push(random.pick([1_000, MINUTE, 20 * MINUTE, 5 * HOUR]));
    const edits = behaviour.drift.chance === 0 ? 0 : random.whole(0, 3);
    for (let edit = 0; edit < edits; edit += 1) editor.edit(service.now());
    await play(story, random.pick(['sync', 'sync', 'backfill']), false);
  }
}

/** Some last changes, and then time: so much that whatever was late has come. */
async function playQuietly(story: Story): Promise<void> {
  const { random, clock, service, editor, written, behaviour } = story;
  service.isBusy = false;
  for (let edits = random.whole(0, 3); edits > 0; edits -= 1) editor.edit(service.now());
  clock.push(
    behaviour.lag.ms +
      behaviour.cache.ms +
      behaviour.times.lateMs +
      written.lookbackMs +
      random.pick([MINUTE, HOUR, 30 * HOUR]),
  );
  await play(story, 'sync', false);
  await play(story, 'backfill', true);
}

async function play(story: Story, command: Command, isLast: boolean): Promise<void> {
  const { service, random, runner, runs, records } = story;
  const startedAt = service.now();
  const stopAfter = service.isBusy && random.chance(0.12) ? random.whole(1, 6) : null;
  const before = records.moves;
  const run = await runner.run(command, stopAfter);
  runs.push({ ...run, moves: records.moves - before });
  const walkedSince = story.walkedSince ?? startedAt;
  const ended = { mode: run.mode, isOk: run.status === 'ok', walkedSince, isLast };
  story.walkedSince = run.status === 'ok' || run.status === 'partial' ? null : walkedSince;
  const broken = await story.database.read(story.address, (db) => brokenPromises(db, ended, story));
  for (const { promise, differences } of broken) story.broken.push({ promise, differences, run: runs.length });
}

/** A run that ended, as far as promises depend on it. */
export interface EndedRun {
  mode: 'full' | 'incremental';
  isOk: boolean;
  /** The service's time when its walk began, in whichever run that was. */
  walkedSince: number;
  /** True for the last run: nothing moves any more and it must be right, whatever was before. */
  isLast: boolean;
}

interface Promised {
  behaviour: Behaviour;
  written: Written;
  records: ServiceRecords;
}

interface Broken {
  promise: string;
  differences: Difference[];
}

/**
 * What a run has promised and not kept; nothing where it kept everything. `ok` after a full walk means: equal, in all that
 * did not move meanwhile. `ok` after an incremental one: everything is there whose own time tells of its last change.
 */
function brokenPromises(db: Database.Database, run: EndedRun, { behaviour, written, records }: Promised): Broken[] {
  const history = historyFaults(db, records, canTellOrder(behaviour));
  const ofHistory = history.length === 0 ? [] : [{ promise: 'a history is what was', differences: history }];
  return run.isOk ? [...ofHistory, ...brokenOk(db, run, { behaviour, written, records })] : ofHistory;
}

function brokenOk(db: Database.Database, run: EndedRun, { behaviour, written, records }: Promised): Broken[] {
  // What moved shortly before may not have come to the replica that answered.
  const sureBefore = run.walkedSince - behaviour.lag.ms - behaviour.cache.ms;
  const isQuiet = run.isLast || records.movedAt < sureBefore;
  const isSure = ({ changedAt }: Entry): boolean => isQuiet || changedAt < sureBefore;
  if (run.mode === 'full') {
    const truth = truthOf(behaviour, records, isSure, isQuiet ? Infinity : sureBefore);
    return broken(isQuiet ? 'ok after a full walk' : 'ok after a full walk while it moved', db, truth, isQuiet);
  }
  if (!isLookbackEnough(behaviour, written)) return [];
  const isTold = (entry: Entry): boolean => isSure(entry) && entry.isHonest && entry.isListed;
  return broken('ok after an incremental walk', db, truthOf(behaviour, records, isTold, -Infinity), false);
}

function broken(promise: string, db: Database.Database, truth: Truth, isWhole: boolean): Broken[] {
  const differences = differencesFrom(db, truth, isWhole);
  return differences.length === 0 ? [] : [{ promise, differences }];
}

/** Whether whoever is shown an older state can find out: by a record that is read alone from who does not lag. */
function canTellOrder({ item, ids }: Behaviour): boolean {
  return (item.kind === 'same' || item.kind === 'no_drafts') && !item.isLagging && ids !== 'composite';
}

/** Lag, lateness and cut times that the look-back covers; else a sync may miss what it was told not to look for. */
function isLookbackEnough({ lag, cache, times, clock }: Behaviour, { lookbackMs }: Written): boolean {
  const second = 1_000;
  return lag.ms + cache.ms + times.lateMs + times.resolution + 2 * second + clock.answerMs < lookbackMs;
}

/** By key: what must be there, and, where it went before `goneBefore`, what must not. */
function truthOf(
  behaviour: Behaviour,
  records: ServiceRecords,
  isSure: (entry: Entry) => boolean,
  goneBefore: number,
): Truth {
  const seesAll = behaviour.key === 'right';
  const truth = new Map<string, Entry['body'] | null | 'either'>();
  for (const entry of records.entries.values()) {
    const isSeen = entry.isPublic || seesAll;
    if (!isSure(entry)) truth.set(entry.key, 'either');
    else if (entry.isListed && isSeen) truth.set(entry.key, entry.body);
    // A record that is not listed and can be read: whoever reads it alone keeps it.
    else truth.set(entry.key, behaviour.item.showsUnlisted || goneBefore === -Infinity ? 'either' : null);
  }
  for (const [key, at] of records.removedAt) if (!records.entries.has(key) && at < goneBefore) truth.set(key, null);
  return truth;
}

/** Throws the story where a promise was broken. */
export function requireKept(outcome: Outcome): void {
  const { behaviour, written } = outcome;
  requireKeptIn(outcome, 'any-service.test.ts', [
    `service: ${JSON.stringify(behaviour)}`,
    `profile: ${JSON.stringify(written.resource)}; wrong in it: ${written.wrong ?? 'nothing'}`,
  ]);
}
