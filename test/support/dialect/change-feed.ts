import { Digits, type Value } from '../world/json-value.ts';
import type { Answer, Arguments } from './asked.ts';
import { shown } from './bodies.ts';
import type { Dialect, FilterVariant } from './dialect.ts';
import type { Posts } from './posts.ts';

const MOST = 4;

interface Change {
  id: string;
  sequence: number;
  /** Null where the post is not there any more. */
  doc: Value;
}

/** Each post's last change behind a place in the order of all changes, some at a time. */
function changes(args: Arguments, posts: Posts, dialect: Dialect): Answer | null {
  if (!args.asked.url.pathname.endsWith('/changes')) return null;
  const since = args.read('since') === 'now' ? posts.moves : args.whole('since', 0);
  const behind = changesIn(posts, dialect).filter(({ sequence }) => sequence > since);
  const told = behind.slice(0, MOST);
  const results = told.map(
    ({ id, sequence, doc }) =>
      new Map<string, Value>([
        ['id', id],
        ['seq', new Digits(sequence)],
        ...(doc === null ? [['deleted', true] as const] : [['doc', doc] as const]),
      ]),
  );
  const body = new Map<string, Value>([
    ['results', results],
    ['last_seq', new Digits(told.at(-1)?.sequence ?? since)],
    ['pending', new Digits(behind.length - told.length)],
  ]);
  return { status: 200, body };
}

function changesIn(posts: Posts, dialect: Dialect): Change[] {
  const there = [...posts.live.values()].map((post): Change => ({
    id: post.id,
    sequence: post.sequence,
    doc: post.state === 'hidden' ? null : shown(dialect, post),
  }));
  const gone = posts.graves
    .filter(({ post }) => !posts.live.has(post.key))
    .map(({ post, sequence }): Change => ({ id: post.id, sequence, doc: null }));
  return [...there, ...gone].toSorted((a, b) => a.sequence - b.sequence);
}

/** A service that tells all its changes by their number. */
export const CHANGE_FEED: FilterVariant = {
  name: 'a feed of changes',
  tellsDeletes: true,
  find: (_args, posts) => posts,
  route: changes,
  profile: () => ({
    resource: {
      updated: 'updated_at',
      incremental: {
        mode: 'feed',
        path: '/changes',
        query: { since: '{cursor}' },
        records: 'results',
        record: 'doc',
        id: 'id',
        deleted: { field: 'deleted' },
        next: 'last_seq',
        more: 'pending',
        start: { path: '/changes', query: { since: 'now' }, cursor: 'last_seq' },
      },
    },
  }),
};
