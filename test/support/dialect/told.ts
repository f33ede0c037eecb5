import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import { openApp, type App } from '../../../src/app.ts';
import type { Clock } from '../../../src/model/clock.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';
import type { Inbox } from '../../../src/warehouse/inbox.ts';
import type { TestDatabase } from '../databases.ts';
import { draining } from '../draining.ts';
import type { Difference } from '../world/copy.ts';
import { written, type Fields } from '../world/json-value.ts';
import { differencesFrom } from '../world/oracle.ts';
import type { WorldClock } from '../world/world-clock.ts';
import { bodyOf, isCopied, stored } from './bodies.ts';
import type { Dialect } from './dialect.ts';
import type { PostEditor } from './editor.ts';
import type { Post, Posts } from './posts.ts';

/** How fast time goes while deliveries are worked on: who waits for them looks again and again. */
const HURRY = 50;
const LOOKS = 200;
const LOOK_MS = 10;
/** Ends in which a row is what its record was when it was read. */
const SURE: ReadonlySet<string> = new Set(['loaded', 'unchanged', 'deleted', 'absent', 'walked']);

interface Stage {
  dialect: Dialect;
  posts: Posts;
  editor: PostEditor;
  clock: WorldClock;
  database: TestDatabase;
  folder: string;
  /** Of the copy. */
  address: string;
  log: string[];
}

/**
 * Changes some posts, sends the events of it, and looks at the rows of those posts once everything is settled: what was
 * settled well and is not in the copy.
 */
export async function differencesAfterEvents(stage: Stage, edits: number): Promise<Difference[]> {
  const { dialect, posts, editor, clock, database, address, log } = stage;
  if (dialect.hooks.events === null) return [];
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
  clock.hurry = HURRY;
  const serving = await draining({ open: (given) => appOf(stage, given ?? clock) }, { clock, only: ['content'] });
  await serving.deliver(...bodies.map((body) => written(body)));
  const isSettled = await settledSoon(serving.inbox);
  await serving.close();
  clock.hurry = stage.database.name === 'sqlite' ? 0 : HURRY;
  const outcomes = serving.events.map(({ outcome }) => outcome);
  log.push(
    `events: ${bodies.map((body) => written(body)).join(' ')}: ${outcomes.join(', ')} ${serving.errors.join(' | ')}`,
  );
  if (!isSettled || !outcomes.every((outcome) => SURE.has(outcome))) return [];
  const truth = new Map(keys.map((key) => [key, wanted(dialect, posts.live.get(key))]));
  const sent = new Map([...posts.live].map(([key, post]) => [key, stored(dialect, post)]));
  return database.read(address, (db) => differencesFrom(db, truth, false, sent));
}

/** What an event tells of a post that is as it was before, nobody can tell from what came late. */
function wanted(dialect: Dialect, post: Post | undefined): Fields | null | 'either' {
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

function appOf({ folder }: Stage, clock: Clock): Promise<App> {
  const file = path.join(folder, 'content-sync.yaml');
  const source = loadSettings({ path: file, env: {}, cwd: folder }).sources['blog'];
  if (source === undefined) throw new Error('the config has one source');
  return openApp({ source, clock, log: pino({ level: 'silent' }), secrets: [] });
}
