import type { Value } from '../world/json-value.ts';
import { RESOURCE } from '../world/copy.ts';
import type { HookVariant } from './dialect.ts';

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

const twoStates: Event = (ids, isDelete) =>
  ids.map((id) => {
    const state: Value = fields(['id', id]);
    const both: Value = fields(['current', isDelete ? fields() : state], ['previous', isDelete ? state : fields()]);
    return fields(['event', isDelete ? 'post.removed' : 'post.edited'], ['post', both]);
  });

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
    name: 'the state before and after',
    events: twoStates,
    profile: () => ({
      service: {
        webhooks: {
          kind: 'json:event',
          deleted: ['*.removed'],
          rules: [
            {
              kind: 'post.*',
              resource: RESOURCE,
              id: ['json:post.current.id', 'json:post.previous.id'],
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
