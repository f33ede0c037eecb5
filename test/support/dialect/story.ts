import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import type { Inbox } from '../../../src/database/inbox.ts';
import { POSTGRES, SQLITE, type TestDatabase } from '../databases.ts';
import { draining } from '../draining.ts';
import { openFrom } from '../journey.ts';
import { IS_REPLAY } from '../length.ts';
import { type Random, randomFrom } from '../random.ts';
import { type Fields, written } from '../world/json-value.ts';
import { type Difference, differencesFrom, historyFaults } from '../world/oracle.ts';
import { type Command, emptyCopy, type Run, type Runner, storyClock } from '../world/runner.ts';
import type { WorldClock } from '../world/world-clock.ts';
import { deviate, type Deviation } from './deviations.ts';
import { describeDialect, type Dialect, DIMENSIONS, drawDialect, isUnstable } from './dialect.ts';
import { type Post, PostEditor, Posts } from './posts.ts';
import { bodyOf, DialectService, isCopied, stored } from './service.ts';
import { profileOf, SPOKEN, type WrittenProfile } from './spoken.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** What came of a seed. */
export interface Outcome {
  seed: number;
  database: TestDatabase['name'];
  dialect: Dialect;
  profile: WrittenProfile;
  deviation: Deviation;
  runs: readonly Run[];
  /** In the end there was nothing to copy. */
  isEmpty: boolean;
  broken: readonly { promise: string; differences: readonly Difference[]; run: number }[];
  log: readonly string[];
}

interface Story {
  dialect: Dialect;
  deviation: Deviation;
  random: Random;
  clock: WorldClock;
  posts: Posts;
  editor: PostEditor;
  service: DialectService;
  runner: Runner;
  database: TestDatabase;
  config: string;
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
  const dialect = drawDialect(random, SPOKEN);
  const profile = profileOf(dialect);
  const deviation = deviate(profile, randomFrom(seed + 1));
  const database = random.chance(0.2) && POSTGRES.missing === null ? POSTGRES : SQLITE;
  const story = await setStage({ dialect, profile, deviation }, database, random);
  await playNoisily(story);
  await playQuietly(story);
  const { runs, broken, service, posts } = story;
  const isEmpty = ![...posts.live.values()].some(isCopied);
  return { seed, database: database.name, dialect, profile, deviation, runs, isEmpty, broken, log: service.log };
}

async function setStage(
  { dialect, profile, deviation }: Pick<Outcome, 'dialect' | 'profile' | 'deviation'>,
  database: TestDatabase,
  random: Random,
): Promise<Story> {
  const clock = storyClock(database);
  const log: string[] = [];
  const posts = new Posts((post) => stored(dialect, post));
  const editor = new PostEditor(posts, dialect, random, log);
  const service = new DialectService({ dialect, posts, editor, clock, random, log, lag: deviation.lag });
  editor.fill(dialect.records, clock.now() - 240 * HOUR, clock.now() - 2 * HOUR);
  const base_url = await service.start();
  const deletes = { max_rows: 10_000, max_part: 1 };
  const source = { base_url, auth: dialect.auth.settings, deletes };
  const { runner, config, address } = await emptyCopy(database, clock, service, { profile, source });
  const state = { runs: [], broken: [], walkedSince: null };
  return {
    dialect,
    deviation,
    random,
    clock,
    posts,
    editor,
    service,
    runner,
    database,
    config,
    address,
    log,
    ...state,
  };
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
  const { random, clock, service, dialect, deviation } = story;
  service.isBusy = false;
  editSome(story, 5);
  clock.push(deviation.lag.ms + dialect.lateMs + dialect.lookbackMs + random.pick([MINUTE, HOUR, 30 * HOUR]));
  await play(story, 'sync', false);
  const differences = await differencesAfterEvents(story, random.whole(1, 4));
  if (differences.length > 0)
    story.broken.push({ promise: 'an event ends in a row', differences, run: story.runs.length });
  editSome(story, 3);
  clock.push(deviation.lag.ms + dialect.lateMs + dialect.lookbackMs + HOUR);
  await play(story, 'backfill', false);
  // Where nothing can be read alone, a second walk confirms what the first one missed.
  clock.push(dialect.lookbackMs + HOUR);
  await play(story, 'backfill', true);
}

function editSome({ editor, service, random }: Story, most: number): void {
  for (let edits = random.whole(0, most); edits > 0; edits -= 1) editor.edit(service.now());
}

async function play(story: Story, command: Command, isLast: boolean): Promise<void> {
  const { service, random, runner, runs, posts, dialect, deviation } = story;
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
  const broken = await story.database.read(story.address, (db) =>
    brokenPromises(db, ended, { dialect, posts, lagMs: deviation.lag.ms }),
  );
  for (const { promise, differences } of broken) story.broken.push({ promise, differences, run: runs.length });
}

/** How fast time goes while deliveries are worked on: who waits for them looks again and again. */
const TOLD_HURRY = 50;
const LOOKS = 200;
const LOOK_MS = 10;
/** Ends in which a row is what its record was when it was read. */
const SURE: ReadonlySet<string> = new Set(['loaded', 'unchanged', 'deleted', 'absent', 'scanned']);

/**
 * Changes some posts, sends the events of it, and looks at the rows of those posts once everything is settled: what was
 * settled well and is not in the copy.
 */
async function differencesAfterEvents(story: Story, edits: number): Promise<Difference[]> {
  const { dialect, posts, editor, clock, database, address, config, log } = story;
  // A replica that is behind may answer the listing that an event leads to.
  if (dialect.hooks.events === null || story.deviation.lag.ms > 0) return [];
  const touched = Array.from({ length: edits }, () => editor.edit(clock.now())).filter((post) => post !== null);
  const keys = [...new Set(touched.map(({ key }) => key))];
  const gone = keys.filter((key) => !isThere(posts.live.get(key)));
  const bodies = [
    ...dialect.hooks.events(
      keys.filter((key) => !gone.includes(key)),
      false,
    ),
    ...(gone.length === 0 ? [] : dialect.hooks.events(gone, true)),
  ];
  if (keys.length === 0) return [];
  clock.hurry = TOLD_HURRY;
  const serving = await draining({ open: (given) => openFrom(config, given ?? clock) }, { clock, only: ['content'] });
  await serving.deliver(...bodies.map((body) => written(body)));
  const isSettled = await settledSoon(serving.inbox);
  await serving.close();
  clock.hurry = database.name === 'sqlite' ? 0 : TOLD_HURRY;
  const outcomes = serving.events.map(({ outcome }) => outcome);
  log.push(
    `events: ${bodies.map((body) => written(body)).join(' ')}: ${outcomes.join(', ')} ${serving.errors.join(' | ')}`,
  );
  if (!isSettled || !outcomes.every((outcome) => SURE.has(outcome))) return [];
  const truth = new Map(keys.map((key) => [key, wantedTold(dialect, posts.live.get(key))]));
  const sent = new Map([...posts.live].map(([key, post]) => [key, stored(dialect, post)]));
  return database.read(address, (db) => differencesFrom(db, truth, false, { sent }));
}

/** What an event tells of a post that is as it was before, nobody can tell from what came late. */
function wantedTold(dialect: Dialect, post: Post | undefined): Fields | null | 'either' {
  if (dialect.hooks.isWalked === true && post?.isHonest !== true) return 'either';
  if (post === undefined) return null;
  if (!isCopied(post)) return post.state === 'trash' || post.state === 'hidden' ? null : 'either';
  return post.isHonest ? bodyOf(dialect)(post) : 'either';
}

/** False where a delivery is put off for longer than a story waits. */
async function settledSoon(inbox: Pick<Inbox, 'figures'>): Promise<boolean> {
  for (let looks = 0; looks < LOOKS; looks += 1) {
    if ((await inbox.figures()).waiting === 0) return true;
    await delay(LOOK_MS);
  }
  return false;
}

function isThere(post: Post | undefined): boolean {
  return post !== undefined && (post.state === 'live' || post.state === 'other');
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

interface Broken {
  promise: string;
  differences: Difference[];
}

/**
 * What a run has promised and not kept, by the service's own records. `ok` after a full walk means: equal, in all that
 * did not move meanwhile. `ok` after an incremental one: everything is there whose own time tells of its last change, and
 * nothing that a tombstone tells of.
 */
export function brokenPromises(
  db: Database.Database,
  run: EndedRun,
  { dialect, posts, lagMs = 0 }: { dialect: Dialect; posts: Posts; lagMs?: number },
): Broken[] {
  const sent = new Map([...posts.live].map(([key, post]) => [key, stored(dialect, post)]));
  const history = historyFaults(db, posts, dialect.deletes.gone !== null);
  const broken: Broken[] = history.length === 0 ? [] : [{ promise: 'a history is what was', differences: history }];
  if (!run.isOk) return broken;
  const refused = dialect.refused?.place;
  // What moved shortly before may not have come to the replica that answered.
  const sureBefore = run.walkedSince - lagMs;
  const isQuiet = run.isLast || posts.movedAt < sureBefore;
  const isSure = ({ changedAt }: Post): boolean => isQuiet || changedAt < sureBefore;
  const isFull = run.mode === 'full';
  const truth = new Map<string, Fields | null | 'either'>();
  for (const post of posts.live.values()) {
    truth.set(post.key, isSure(post) && post.place !== refused ? wanted(dialect, post, isFull) : 'either');
  }
  for (const { post, at } of posts.graves) {
    if (posts.live.has(post.key)) continue;
    const isGone =
      post.place !== refused &&
      (isQuiet || at < sureBefore) &&
      (isFull || dialect.deletes.isTold || dialect.filter.tellsDeletes === true);
    truth.set(post.key, isGone ? null : 'either');
  }
  const differences = differencesFrom(db, truth, isFull && isQuiet, { sent });
  const promise = `ok after ${isFull ? 'a full' : 'an incremental'} walk${isQuiet ? '' : ' while it moved'}`;
  return differences.length === 0 ? broken : [...broken, { promise, differences }];
}

function wanted(dialect: Dialect, post: Post, isFull: boolean): Fields | null | 'either' {
  const isTold = isFull || (post.isHonest && (post.state !== 'trash' || dialect.deletes.isTold));
  if (isCopied(post)) return isTold ? bodyOf(dialect)(post) : 'either';
  // A post of another kind is only known not to be listed once everything was.
  return isTold && (isFull || post.state === 'trash') ? null : 'either';
}

const MOST_SHOWN = 8;
/** Of the last things that happened in a story. */
const LOG_SHOWN = 400;

/** Throws the story where a promise was broken: what the service does, what the profile says, and what each run came to. */
export function requireKept({ seed, database, dialect, profile, deviation, runs, broken, log }: Outcome): void {
  if (broken.length === 0) return;
  const account = [
    `SEED=${seed} on ${database}; to play it again: TEST_LENGTH=long SEED=${seed} SEEDS=1 with any-dialect.test.ts`,
    `service: ${describeDialect(dialect)}`,
    `profile: ${JSON.stringify(profile)}; ${JSON.stringify(deviation)}`,
    ...runs.map(
      ({ command, status, mode, said, listing, item, moves }, at) =>
        `run ${at + 1}: ${command} (${mode}) ${status}; ${listing} pages and ${item} records asked for, ${moves} changes meanwhile; ${said.join(' | ') || 'nothing said'}`,
    ),
    ...broken.flatMap(({ promise, differences, run }) => [
      `BROKEN after run ${run}: ${promise}; ${differences.length} differences`,
      ...differences.slice(0, MOST_SHOWN).map(({ kind, text }) => `  ${kind}: ${text.slice(0, 600)}`),
    ]),
    ...(IS_REPLAY ? log.slice(-LOG_SHOWN) : []),
  ];
  throw new Error(account.join('\n'));
}

/** What a service came to in the end: `ok`, or why not. */
export function endOf(outcome: Outcome): string {
  const last = outcome.runs.at(-1);
  return [last?.status ?? 'none', ...reasonsOf(outcome)].join(' ');
}

/** True where the last run was an `ok`, or said only what the service itself leaves open. */
export function isExcused(outcome: Outcome): boolean {
  const { dialect, runs, isEmpty } = outcome;
  const left = DIMENSIONS.flatMap((dimension) => dialect[dimension].doubts ?? []);
  const allowed = new Set([...left, ...oddDoubts(dialect), ...(isEmpty ? OF_NOTHING : [])]);
  const status = runs.at(-1)?.status;
  return status === 'ok' || (status === 'partial' && reasonsOf(outcome).every((code) => allowed.has(code)));
}

const MISSING = ['total_not_reached', 'listing_moved', 'deletes_unconfirmed', 'deletes_held'];

/** Codes of warnings that stay as long as the service behaves so. */
function oddDoubts({ odd, order, refused, envelope, filter }: Dialect): readonly string[] {
  const countsMore = odd.claims.some(
    ({ at, unlisted, isIgnored }) =>
      !isIgnored && unlisted > 0 && (at.startsWith('header:') || envelope.isBare !== true),
  );
  const isShuffled = isUnstable(odd) && (order.by !== 'id' || filter.isNewestFirst === true);
  return [...(countsMore || isShuffled ? MISSING : []), ...(refused === null ? [] : ['listing_unread'])];
}

/** Without a single record nothing about records can be proved. */
const OF_NOTHING = ['empty_listing', 'deletes_unconfirmed', 'deletes_held', 'older_listed'];
/** They stand in runs that are `ok` as well. */
const NOTES: ReadonlySet<string> = new Set(['listing_empty']);

/** Why the last run was not `ok`. */
function reasonsOf({ runs }: Outcome): string[] {
  const last = runs.at(-1);
  if (last === undefined || last.status === 'ok') return [];
  return last.said.map((text) => text.split(':', 1)[0] ?? text).filter((code) => !NOTES.has(code));
}
