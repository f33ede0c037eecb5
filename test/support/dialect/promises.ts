import type Database from 'better-sqlite3';
import type { Difference } from '../world/copy.ts';
import type { Fields } from '../world/json-value.ts';
import { differencesFrom, historyFaults } from '../world/oracle.ts';
import type { EndedRun } from '../world/promises.ts';
import { bodyOf, isCopied, stored } from './bodies.ts';
import type { Dialect } from './dialect.ts';
import type { Post, Posts } from './posts.ts';

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
  { dialect, posts }: { dialect: Dialect; posts: Posts },
): Broken[] {
  const sent = new Map([...posts.live].map(([key, post]) => [key, stored(dialect, post)]));
  const history = historyFaults(db, posts, dialect.deletes.gone !== null);
  const broken: Broken[] = history.length === 0 ? [] : [{ promise: 'a history is what was', differences: history }];
  if (!run.isOk) return broken;
  const refused = dialect.refused?.place;
  const isQuiet = run.isLast || posts.movedAt < run.walkedSince;
  const isSure = ({ changedAt }: Post): boolean => isQuiet || changedAt < run.walkedSince;
  const isFull = run.mode === 'full';
  const truth = new Map<string, Fields | null | 'either'>();
  for (const post of posts.live.values()) {
    truth.set(post.key, isSure(post) && post.place !== refused ? wanted(dialect, post, isFull) : 'either');
  }
  for (const { post, at } of posts.graves) {
    if (posts.live.has(post.key)) continue;
    const isGone =
      post.place !== refused &&
      (isQuiet || at < run.walkedSince) &&
      (isFull || dialect.deletes.isTold || dialect.filter.tellsDeletes === true);
    truth.set(post.key, isGone ? null : 'either');
  }
  const differences = differencesFrom(db, truth, isFull && isQuiet, sent);
  const promise = `ok after ${isFull ? 'a full' : 'an incremental'} walk${isQuiet ? '' : ' while it moved'}`;
  return differences.length === 0 ? broken : [...broken, { promise, differences }];
}

function wanted(dialect: Dialect, post: Post, isFull: boolean): Fields | null | 'either' {
  const isTold = isFull || (post.isHonest && (post.state !== 'trash' || dialect.deletes.isTold));
  if (isCopied(post)) return isTold ? bodyOf(dialect)(post) : 'either';
  // A post of another kind is only known not to be listed once everything was.
  return isTold && (isFull || post.state === 'trash') ? null : 'either';
}
