import { Digits, type Value } from '../world/json-value.ts';
import type { Dialect, FilterVariant, Said, TimeForm } from './dialect.ts';
import type { Post, Posts } from './posts.ts';
import { type Arguments, shown } from './service.ts';
import type { Answer } from './oddities.ts';

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
const CHANGE_FEED: FilterVariant = {
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

const iso = (at: number): string => new Date(at).toISOString();
const ZONE_MS = 120 * 60_000;

const FORMS: readonly Omit<TimeForm, 'profile'>[] = [
  { name: 'iso_ms', resolution: 1, write: iso, format: 'as_sent' },
  { name: 'iso_s', resolution: 1_000, write: (at) => `${iso(at).slice(0, 19)}Z`, format: 'as_sent' },
  { name: 'iso_s sent as iso', resolution: 1_000, write: (at) => `${iso(at).slice(0, 19)}+00:00`, format: 'iso' },
  {
    name: 'zone',
    resolution: 1,
    write: (at) => `${iso(at + ZONE_MS).slice(0, 23)}+02:00`,
    format: 'as_sent',
  },
  { name: 'naive', resolution: 1_000, write: (at) => iso(at).slice(0, 19).replace('T', ' '), format: 'as_sent' },
  { name: 'epoch_s', resolution: 1_000, write: (at) => new Digits(Math.floor(at / 1_000)), format: 'epoch_s' },
  { name: 'epoch_ms', resolution: 1, write: (at) => new Digits(at), format: 'epoch_ms' },
];

/** How a service writes moments. The first one is the usual one. */
export const TIME_FORMS: readonly TimeForm[] = FORMS.map((form) => Object.assign({ profile: () => ({}) }, form));

/** The moment that a request names, read as a lenient service reads it; NaN for what is none. */
function momentIn(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return text.length > 11 ? Number(text) : Number(text) * 1_000;
  const day = text.replace(' ', 'T');
  return Date.parse(/(Z|[-+]\d\d:?\d\d)$/.test(day) ? day : `${day}Z`);
}

type Find = FilterVariant['find'];

const changed = (post: Post): number => post.updatedAt ?? post.createdAt;

/** Posts that changed since the moment at this place. */
function since(args: Arguments, place: string, posts: readonly Post[], of: (post: Post) => number | null = changed) {
  const text = args.read(place);
  if (text === null) return posts;
  const moment = momentIn(text);
  if (Number.isNaN(moment)) return 400;
  return posts.filter((post) => (of(post) ?? -Infinity) >= moment);
}

/** What is not asked for finds nothing. */
const asked = (text: string | null): number => (text === null ? Infinity : momentIn(text));

const byArgument =
  (name: string): Find =>
  (args, posts, dialect) =>
    since(args, dialect.request.place(name), posts);

const incremental = (dialect: Dialect, fields: Record<string, unknown>): Said => ({
  resource: {
    updated: 'updated_at',
    incremental: { format: dialect.times.format, lookback: `${dialect.lookbackMs}ms`, ...fields },
  },
});

/** A moment as this service compares it in a text. */
const sqlText = (at: number): string => new Date(at).toISOString().slice(0, 19).replace('T', ' ');

const isText = (value: Value): value is string => typeof value === 'string';

/** How changes are asked for. The first one is the usual one. */
export const FILTERS: readonly FilterVariant[] = [
  {
    name: 'since',
    find: byArgument('updated_since'),
    profile: (dialect) => incremental(dialect, { param: dialect.request.place('updated_since') }),
  },
  {
    name: 'none',
    find: (_args, posts) => posts,
    profile: () => ({ resource: { updated: 'updated_at', incremental: null } }),
  },
  {
    name: 'later than',
    find: (args, posts, dialect) => {
      const text = args.read(dialect.request.place('after_time'));
      return text === null ? posts : posts.filter((post) => changed(post) > momentIn(text));
    },
    profile: (dialect) => incremental(dialect, { param: dialect.request.place('after_time') }),
  },
  {
    // Compares texts, so that a moment in another form finds nothing and no error says so.
    name: 'a sentence that compares texts',
    forms: ({ write }) => isText(write(0)),
    find: (args, posts, dialect) => {
      const text = args.read(dialect.request.place('filter'));
      if (text === null) return posts;
      const [, moment] = /^updated_at:>='([^']*)'$/.exec(text) ?? [];
      return moment === undefined ? 400 : posts.filter((post) => sqlText(changed(post)) >= moment);
    },
    profile: (dialect) =>
      incremental(dialect, {
        param: dialect.request.place('filter'),
        template: "updated_at:>='{since}'",
        format: 'yyyy-MM-dd HH:mm:ss',
      }),
  },
  {
    name: 'a sentence with seconds',
    find: (args, posts, dialect) => {
      const text = args.read(dialect.request.place('q'));
      const [, seconds] = /^changed>(\d+)$/.exec(text ?? '') ?? [];
      if (text === null) return posts;
      return seconds === undefined ? 400 : posts.filter((post) => changed(post) >= Number(seconds) * 1_000);
    },
    profile: (dialect) =>
      incremental(dialect, { param: dialect.request.place('q'), template: 'changed>{since}', format: 'epoch_s' }),
  },
  {
    name: 'one of two times, the first one null at first',
    isNullAtFirst: true,
    find: (args, posts, dialect) => {
      const updated = args.read(dialect.request.place('or.updated'));
      const created = args.read(dialect.request.place('or.created'));
      if (updated === null && created === null) return posts;
      return posts.filter(
        (post) => (post.updatedAt ?? -Infinity) >= asked(updated) || post.createdAt >= asked(created),
      );
    },
    profile: (dialect) => {
      const [updated, created] = [dialect.request.place('or.updated'), dialect.request.place('or.created')];
      const { resource } = incremental(dialect, { query: { [updated]: '{since}', [created]: '{since}' } });
      return { resource: { ...resource, updated: ['updated_at', 'created_at'] } };
    },
  },
  {
    name: 'newest first',
    isNewestFirst: true,
    find: (_args, posts) => posts,
    profile: (dialect) => incremental(dialect, { mode: 'newest_first' }),
  },
  CHANGE_FEED,
];
