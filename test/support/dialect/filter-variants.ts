import type { Value } from '../world/json-value.ts';
import type { Arguments } from './asked.ts';
import { CHANGE_FEED } from './change-feed.ts';
import type { Dialect, FilterVariant, Said } from './dialect.ts';
import type { Post } from './posts.ts';
import { momentIn } from './times.ts';

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
    incremental: { format: dialect.times.format, overlap: `${dialect.overlapMs}ms`, ...fields },
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
