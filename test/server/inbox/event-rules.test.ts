import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { readDelivery, type DeliveryContent } from '../../../src/server/inbox/read-delivery.ts';
import type { EventTarget } from '../../../src/server/inbox/read-delivery.ts';

const ITEM = { path: '/x', page: { style: 'page', page_param: 'page' } };
const RESOURCES = { posts: ITEM, pages: ITEM, tags: ITEM, pairs: { ...ITEM, id: ['site', 'slug'], item: null } };

function read(webhooks: Record<string, unknown>, body: object, headers: object = {}): DeliveryContent {
  const profile = profileSchema.parse({ webhooks, resources: RESOURCES });
  const delivery = { headers: JSON.stringify(headers), body: Buffer.from(JSON.stringify(body)) };
  return readDelivery(delivery, { webhooks: profile.webhooks, resources: profile.resources });
}

function targetsOf(webhooks: Record<string, unknown>, body: object, headers: object = {}): Partial<EventTarget>[] {
  const content = read(webhooks, body, headers);
  return content.is === 'read' ? content.targets : [];
}

function keysOf(webhooks: Record<string, unknown>, body: object): string[] {
  return targetsOf(webhooks, body).map(({ resource, key }) => `${resource} ${key}`);
}

const POSTS = { kind: 'post.*', resource: 'posts' };

describe('rules', () => {
  it('are looked at before kinds and the word for the resource, and the first that fits counts', () => {
    const rules = [POSTS, { kind: '*', resource: 'tags' }];
    const webhooks = { rules, kinds: { '*': 'pages' } };
    expect(keysOf(webhooks, { type: 'post.added', data: { id: 1, resource: 'pages' } })).toEqual(['posts 1']);
    expect(keysOf(webhooks, { type: 'tag.added', data: { id: 1, resource: 'pages' } })).toEqual(['tags 1']);
  });

  it('leave an event that fits none to the fields beside them', () => {
    const webhooks = { rules: [POSTS], kinds: { 'page.*': 'pages' } };
    expect(keysOf(webhooks, { type: 'page.added', data: { id: 1 } })).toEqual(['pages 1']);
    expect(keysOf(webhooks, { type: 'x', data: { id: 1, resource: 'tags' } })).toEqual(['tags 1']);
  });

  it.each<[string, Record<string, unknown>, object, object, boolean]>([
    ['no value', { 'json:collection': '*' }, {}, {}, false],
    ['a pattern', { 'json:c': 'blog_*' }, { c: 'blog_posts' }, {}, true],
    ['a number by its digits', { 'json:c': 7 }, { c: 7 }, {}, true],
    ['an object', { 'json:c': '*' }, { c: { a: 1 } }, {}, false],
    ['a header', { 'header:X-Topic': 'posts/*' }, {}, { 'x-topic': 'posts/1' }, true],
    ['two places, one met', { 'json:a': 1, 'json:b': 2 }, { a: 1, b: 3 }, {}, false],
  ])('ask for values: %s', (_, where, body, headers, fits) => {
    expect(targetsOf({ rules: [{ where, resource: 'posts' }] }, body, headers)).toHaveLength(fits ? 1 : 0);
  });

  it('lead on to the next one that fits, where they say so', () => {
    const rules = [
      { kind: 'post.*', resource: 'posts', id: 'json:id', continue: true },
      { kind: 'x', resource: 'pages' },
      { kind: '*.deleted', resource: 'tags', id: null },
      { kind: '*', resource: 'pages' },
    ];
    expect(keysOf({ rules }, { type: 'post.deleted', id: 4 })).toEqual(['posts 4', 'tags null']);
    expect(keysOf({ rules: rules.slice(0, 1) }, { type: 'post.deleted', id: 4 })).toEqual(['posts 4']);
  });

  it('ignore an event on purpose, and say so', () => {
    const webhooks = { rules: [{ kind: 'ping', resource: [] }], kinds: { '*': 'posts' } };
    expect(read(webhooks, { type: 'ping' })).toEqual({
      is: 'ignored',
      kind: 'ping',
      reason: 'a rule of the profile ignores an event of the kind "ping"',
    });
  });
});

describe('places of the id', () => {
  const byList = { kinds: { '*': 'posts' }, id: ['json:key', 'json:keys'] };

  it.each<[string, object, string[]]>([
    ['the first that holds one', { key: 1, keys: [2] }, ['posts 1']],
    ['the next, where it is missing', { keys: [2, 3] }, ['posts 2', 'posts 3']],
    ['a list with something that is no id: the resource as well', { keys: [1, true] }, ['posts 1', 'posts null']],
    ['objects, by their id', { keys: [{ id: 1 }, { id: 2 }] }, ['posts 1', 'posts 2']],
    ['nothing at all: the resource', {}, ['posts null']],
  ])('give %s', (_, body, keys) => {
    expect(keysOf(byList, body)).toEqual(keys);
  });

  it('give the keys of several fields of a list of objects', () => {
    const webhooks = { kinds: { '*': 'pairs' }, id: 'json:rows' };
    const rows = [
      { site: 1, slug: 'a' },
      { site: 2, slug: null },
    ];
    expect(targetsOf(webhooks, { rows }).map(({ key }) => key)).toEqual(['["1","a"]', '["2",null]']);
  });

  it('walk the resource for an event about more records than are worth reading', () => {
    const keys = Array.from({ length: 501 }, (_, at) => at);
    expect(keysOf(byList, { keys: keys.slice(1) })).toHaveLength(500);
    expect(keysOf(byList, { keys })).toEqual(['posts null']);
  });

  it.each<[string, object, string[]]>([
    ['json:items[*].id', { items: [{ id: 1 }, { id: 2 }, {}, 7] }, ['posts 1', 'posts 2']],
    ['json:changed.*.id', { changed: { a: { id: 1 }, b: { id: 2 } } }, ['posts 1', 'posts 2']],
    ['json:items[*].id', { items: { id: 1 } }, ['posts null']],
  ])('may lead through lists and maps: %s', (id, body, keys) => {
    expect(keysOf({ kinds: { '*': 'posts' }, id }, body)).toEqual(keys);
  });
});
