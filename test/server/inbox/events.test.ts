import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import type { WebhookProfile } from '../../../src/config/profile/signature-scheme.ts';
import { type DeliveryContent, type EventTarget, readDelivery } from '../../../src/server/inbox/read-delivery.ts';
import { jsonSuite } from '../../support/corpora.ts';

const NO_TIMES = { updated: null, times: {} };
const RESOURCES = {
  content: { id: 'id', ...NO_TIMES },
  images: { id: 'uuid', ...NO_TIMES },
  pairs: { id: ['site', 'slug'], ...NO_TIMES },
  local: { id: 'id', updated: 'modified', times: { modified: 'Europe/Zurich' } },
};

interface Told {
  body: string | Uint8Array;
  webhooks?: Record<string, unknown>;
  headers?: Record<string, unknown>;
}

function read({ body, webhooks = {}, headers = {} }: Told): DeliveryContent {
  const rules = { webhooks: rulesOf(webhooks), resources: RESOURCES };
  return readDelivery({ headers: JSON.stringify(headers), body: Buffer.from(body) }, rules);
}

function rulesOf(webhooks: Record<string, unknown>): WebhookProfile {
  const page = { style: 'page', page_param: 'page' };
  return profileSchema.parse({ webhooks, resources: { content: { path: '/content', page } } }).webhooks;
}

function event(data: string, type = '"content.updated"'): string {
  return `{"type":${type},"data":${data}}`;
}

const TARGET: EventTarget = { kind: 'content.updated', resource: 'content', key: 'a1', updated: null, isDelete: false };

describe('what a delivery says, by the default profile', () => {
  it.each<[string, string, Partial<EventTarget>]>([
    ['a record by its id', '{"resource":"content","id":"a1"}', {}],
    [
      'an id beyond 2^53 by its digits',
      '{"resource":"content","id":12345678901234567890}',
      { key: '12345678901234567890' },
    ],
    ['an id that is an object: none', '{"resource":"content","id":{"a":1}}', { key: null }],
    ['an id with half a surrogate pair: none', '{"resource":"content","id":"\\ud800"}', { key: null }],
    [
      'a time of change',
      '{"resource":"content","id":"a1","updated_at":"2026-11-20T08:00:00.5Z"}',
      { updated: Date.parse('2026-11-20T08:00:00.500Z') },
    ],
    ['__proto__ as an ordinary key', '{"__proto__":{"resource":"images"},"resource":"content","id":"a1"}', {}],
  ])('finds %s', (_, data, found) => {
    expect(read({ body: event(data) })).toEqual({ is: 'read', targets: [{ ...TARGET, ...found }] });
  });

  it.each<[string, string, boolean]>([
    ['content.deleted', '"content.deleted"', true],
    ['content.undeleted', '"content.undeleted"', false],
  ])('takes %s for what it is', (_, type, isDelete) => {
    const content = read({ body: event('{"resource":"content","id":"a1"}', type) });
    expect(content).toMatchObject({ is: 'read', targets: [{ isDelete }] });
  });

  it.each<[string, string, string]>([
    [
      'F188 a resource that nobody syncs',
      event('{"resource":"comments","id":1}'),
      '"comments" is no resource that is synced',
    ],
    [
      'F188 an event of an unknown kind that names no resource',
      '{"type":"invoice.paid"}',
      'of the kind "invoice.paid"',
    ],
    ['a kind that would break a terminal', '{"type":"\\u001b[2J\\n"}', '"\\u001b[2J\\u000a"'],
    ['a kind of a million characters', `{"type":"${'k'.repeat(1_000_000)}"}`, `"${'k'.repeat(200)}"`],
  ])('ignores %s, and says why', (_, body, reason) => {
    const content = read({ body });
    expect(content.is).toBe('ignored');
    expect(content).toMatchObject({ reason: expect.stringContaining(reason) });
  });

  it.each<[string, string | Uint8Array, string]>([
    ['F187 no JSON', '{"type":', 'not valid JSON'],
    ['F187 invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'not valid utf-8'],
    ['F187 a body that is nested too deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'nested deeper than 100'],
  ])('gives up on %s', (_, body, reason) => {
    expect(read({ body })).toEqual({ is: 'dead', reason: expect.stringContaining(reason) });
  });
});

describe('what a delivery says, by other profiles', () => {
  it.each<[string, Told, Partial<EventTarget>]>([
    [
      'everything in headers',
      {
        webhooks: {
          kind: 'header:X-Topic',
          resource: 'header:X-Resource',
          id: 'header:X-Id',
          updated: 'header:X-Time',
        },
        headers: { 'x-topic': 'products/update', 'x-resource': 'content', 'x-id': '77', 'x-time': '1763625600' },
        body: '{}',
      },
      { kind: 'products/update', key: '77', updated: 1_763_625_600_000 },
    ],
    [
      'the resource by the kind',
      {
        webhooks: { kinds: { '*.Asset.*': 'images', '*.Entry.*': 'content' }, id: 'json:sys.id' },
        body: '{"type":"CM.Entry.save","sys":{"id":"e"}}',
      },
      { kind: 'CM.Entry.save', key: 'e' },
    ],
    [
      "the service's word for a resource",
      { webhooks: { resource_names: { article: 'content' } }, body: event('{"resource":"article","id":"a1"}') },
      {},
    ],
    [
      'a key of several fields, from the object that holds them',
      { webhooks: { id: 'json:data' }, body: event('{"resource":"pairs","site":1,"slug":"a","more":true}') },
      { resource: 'pairs', key: '["1","a"]' },
    ],
    [
      'a local time of change, in the zone that its resource has it in',
      { body: event('{"resource":"local","id":"a1","updated_at":"2026-07-10T12:00:00"}') },
      { resource: 'local', updated: Date.parse('2026-07-10T10:00:00Z') },
    ],
  ])('finds %s', (_, told, found) => {
    expect(read(told)).toEqual({ is: 'read', targets: [{ ...TARGET, ...found }] });
  });

  it('finds all events of a batch, and leaves out those of no resource of ours', () => {
    const events = [
      event('{"resource":"content","id":1}'),
      '{"type":"ping"}',
      event('{"resource":"images","id":2}', '"images.deleted"'),
    ];
    const content = read({ webhooks: { events: 'list.events' }, body: `{"list":{"events":[${events.join(',')}]}}` });
    expect(content).toEqual({
      is: 'read',
      targets: [
        { ...TARGET, key: '1' },
        { kind: 'images.deleted', resource: 'images', key: '2', updated: null, isDelete: true },
      ],
    });
  });

  it.each<[string, string, string]>([
    ['an empty one', '[]', 'the list of events is empty'],
    ['one with nothing of ours', '[{"type":"ping"}]', 'of the kind "ping"'],
  ])('ignores a batch that is %s', (_, body, reason) => {
    expect(read({ webhooks: { events: '' }, body })).toMatchObject({
      is: 'ignored',
      reason: expect.stringContaining(reason),
    });
  });
});

describe('bodies from the corpora', () => {
  it('F187 every one of the JSON test suite is read, ignored or dead, and no invalid one is believed', () => {
    const wanted: Readonly<Record<string, string>> = { n: 'dead', y: 'ignored' };
    const ends = [...jsonSuite('test_parsing')].map(([name, body]) => ({ name, is: read({ body }).is }));
    expect(ends.length).toBeGreaterThan(300);
    expect(ends.filter(({ name, is }) => is !== (wanted[name.slice(0, 1)] ?? is))).toEqual([]);
  });
});
