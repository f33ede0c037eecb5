import { Digits, type Value } from '../world/json-value.ts';
import type { Arguments } from './service.ts';
import type { Answer } from './oddities.ts';
import type { DeleteVariant, Dialect, HookVariant, Said } from './dialect.ts';
import type { Posts } from './posts.ts';
import { GONE_SPELLINGS } from './oddities.ts';
import { RESOURCE } from '../world/oracle.ts';

const item = (gone: readonly number[] | null): Record<string, unknown> => ({
  item: '/content/{id}',
  ...(gone === null ? {} : { gone: { status: gone } }),
});

const FEED_PAGE = 5;

/** The deletes since a moment, a page of them. */
function feed(args: Arguments, { graves }: Posts): Answer | null {
  const { pathname } = args.asked.url;
  if (!pathname.endsWith('/activity')) return null;
  const from = Date.parse(args.read('from') ?? '1970-01-01');
  const page = args.whole('page', 1);
  const found = graves.filter(({ at }) => at >= from).slice((page - 1) * FEED_PAGE, page * FEED_PAGE);
  const entries = found.map(
    ({ post, at, sequence }) =>
      new Map<string, Value>([
        ['id', new Digits(sequence)],
        ['about', 'content'],
        ['item', post.id],
        ['place', post.place],
        ['timestamp', new Date(at).toISOString()],
      ]),
  );
  return { status: 200, body: new Map([['data', entries]]) };
}

function fed({ places, lookbackMs }: Dialect, fields: Record<string, unknown>): Said {
  const delete_feed = {
    path: '/activity',
    query: { action: 'delete', from: '{since}' },
    page: { style: 'page', size: FEED_PAGE },
    records: 'data',
    id: places.values === null ? 'item' : ['place', 'item'],
    at: 'timestamp',
    filter: [{ field: 'about', in: ['content'] }],
    format: 'iso',
    lookback: `${lookbackMs}ms`,
  };
  return { resource: { ...fields, delete_feed } };
}

/** What is left of a post that is deleted. The first one is the usual one. */
export const DELETES: readonly DeleteVariant[] = [
  { name: '404', gone: 404, tomb: null, isTold: false, profile: () => ({ resource: item(null) }) },
  { name: '410', gone: 410, tomb: null, isTold: false, profile: () => ({ resource: item(null) }) },
  { name: '403', gone: 403, tomb: null, isTold: false, profile: () => ({ resource: item([403]) }) },
  ...GONE_SPELLINGS.map((spelling): DeleteVariant => ({
    name: `a single read that answers otherwise: ${spelling}`,
    gone: 404,
    spelling,
    tomb: null,
    isTold: false,
    profile: () => ({ resource: item(null) }),
  })),
  { name: 'nothing at all', gone: null, tomb: null, isTold: false, profile: () => ({}) },
  {
    name: 'a time of the delete',
    gone: 404,
    tomb: { live: ['deletedAt', null], trashed: (at, { write }) => ['deletedAt', write(at)] },
    isTold: true,
    profile: () => ({ resource: { ...item(null), deleted: { field: 'deletedAt' } } }),
  },
  {
    name: 'in the trash',
    gone: 404,
    tomb: { live: ['status', 'published'], trashed: () => ['status', 'trash'] },
    isTold: true,
    profile: () => ({ resource: { ...item(null), deleted: { field: 'status', in: ['trash', 'gone'] } } }),
  },
  {
    name: 'in the trash, without single reads',
    gone: null,
    tomb: { live: ['status', 'published'], trashed: () => ['status', 'trash'] },
    isTold: true,
    profile: () => ({ resource: { deleted: { field: 'status', in: ['trash'] } } }),
  },
  {
    name: 'a feed of deletes',
    gone: 403,
    tomb: null,
    isTold: true,
    route: feed,
    profile: (dialect) => fed(dialect, item([403])),
  },
  {
    name: 'a feed of deletes, without single reads',
    gone: null,
    tomb: null,
    isTold: true,
    route: feed,
    profile: (dialect) => fed(dialect, {}),
  },
];

/** An event by its kind: what happened to the posts with these ids. */
type Event = HookVariant['events'];

const fields = (...members: readonly (readonly [string, Value])[]): Value => new Map(members);

const plain: Event = (ids, isDelete) =>
  ids.map((id) =>
    fields(
      ['type', `${RESOURCE}.${isDelete ? 'deleted' : 'updated'}`],
      ['data', fields(['resource', RESOURCE], ['id', id])],
    ),
  );

const withKeys: Event = (ids, isDelete) => {
  if (ids.length === 0) return [];
  const about = [
    ['collection', 'articles'] as const,
    ['event', `articles.items.${isDelete ? 'delete' : 'update'}`] as const,
  ];
  const [only = ''] = ids;
  return [ids.length === 1 && !isDelete ? fields(...about, ['key', only]) : fields(...about, ['keys', ids])];
};

/** How a service tells of changes. The first one tells of none. */
export const WEBHOOKS: readonly HookVariant[] = [
  { name: 'none', events: null, profile: () => ({}) },
  { name: 'plain', events: plain, profile: () => ({ service: { webhooks: { signature: 'standard-webhooks' } } }) },
  {
    name: 'one or many keys of a collection',
    events: withKeys,
    profile: () => ({
      service: {
        webhooks: {
          kind: 'json:event',
          rules: [
            { where: { 'json:collection': 'others' }, resource: [] },
            {
              kind: '*.delete',
              where: { 'json:collection': 'articles' },
              resource: RESOURCE,
              id: 'json:keys',
              updated: null,
              deleted: true,
            },
            {
              where: { 'json:collection': 'articles' },
              resource: RESOURCE,
              id: ['json:key', 'json:keys'],
              updated: null,
            },
          ],
        },
      },
    }),
  },
  {
    name: 'that something changed',
    isWalked: true,
    events: () => [fields(['event', 'changed'])],
    profile: () => ({
      service: {
        webhooks: { kind: 'json:event', rules: [{ kind: 'changed', resource: RESOURCE, id: null, updated: null }] },
      },
    }),
  },
];
