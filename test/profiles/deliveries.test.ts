import { describe, expect, it } from 'vitest';
import { readPackagedProfile } from '../../src/config/load-profile.ts';
import { readDelivery } from '../../src/server/inbox/read-delivery.ts';

interface Told {
  headers?: Record<string, string>;
  body: object;
}

/** What a delivery of the documented form means: `resource key`, with a minus sign before what is gone; a star for all. */
function meaning(name: string, { headers = {}, body }: Told): string[] {
  const { webhooks, resources } = readPackagedProfile(name);
  const text = Buffer.from(JSON.stringify(body));
  const content = readDelivery({ headers: JSON.stringify(headers), body: text }, { webhooks, resources });
  if (content.is !== 'read') return [content.is];
  return content.targets.map(({ resource, key, isDelete }) => `${isDelete ? '-' : ''}${resource} ${key ?? '*'}`);
}

const topic = (name: string): Record<string, string> => ({ 'x-contentful-topic': `ContentManagement.${name}` });
const operation = (name: string): Record<string, string> => ({
  'sanity-operation': name,
  'sanity-document-id': 'post-1',
});
const notified = (action: string, object_type: string, delivery_slot = 'published'): object => ({
  notifications: [
    {
      data: { system: { id: 'i1', codename: 'hello', language: 'en-US' } },
      message: { object_type, action, delivery_slot },
    },
  ],
});
const record = (event_type: string, entity_type: string): object => ({ event_type, entity_type, entity: { id: 'r1' } });

describe('a delivery as it is documented', () => {
  it.each<[string, string, Told, string[]]>([
    [
      'contentful',
      'publish',
      { headers: topic('Entry.publish'), body: { sys: { id: 'e1', type: 'Entry' } } },
      ['entries e1'],
    ],
    ['contentful', 'unpublish', { headers: topic('Asset.unpublish'), body: { sys: { id: 'a1' } } }, ['-assets a1']],
    ['contentful', 'delete', { headers: topic('Entry.delete'), body: { sys: { id: 'e1' } } }, ['-entries e1']],
    ['contentful', 'a draft', { headers: topic('Entry.auto_save'), body: { sys: { id: 'e1' } } }, ['ignored']],
    ['sanity', 'update', { headers: operation('update'), body: { _id: 'post-1' } }, ['documents post-1']],
    ['sanity', 'delete', { headers: operation('delete'), body: { _id: 'post-1' } }, ['-documents post-1']],
    ['storyblok', 'published', { body: { action: 'published', story_id: 7, space_id: 1 } }, ['stories 7']],
    ['storyblok', 'unpublished', { body: { action: 'unpublished', story_id: 7 } }, ['-stories 7']],
    ['storyblok', 'an entry', { body: { action: 'entries_updated', datasource_slug: 'x' } }, ['datasource_entries *']],
    ['prismic', 'api-update', { body: { type: 'api-update', documents: ['X1'], secret: 's' } }, ['documents *']],
    ['prismic', 'test-trigger', { body: { type: 'test-trigger', secret: 's' } }, ['ignored']],
    ['datocms', 'publish', { body: record('publish', 'item') }, ['records r1']],
    ['datocms', 'delete', { body: record('delete', 'upload') }, ['-uploads r1']],
    [
      'contentstack',
      'publish',
      { body: { module: 'entry', event: 'publish', data: { entry: { uid: 'b' } } } },
      ['entries *'],
    ],
    ['kontent-ai', 'published', { body: notified('published', 'content_item') }, ['items hello']],
    ['kontent-ai', 'unpublished', { body: notified('unpublished', 'content_item') }, ['-items hello']],
    ['kontent-ai', 'a preview', { body: notified('created', 'content_item', 'preview') }, ['ignored']],
    ['kontent-ai', 'a type', { body: notified('changed', 'content_type') }, ['types *']],
    ['webflow', 'changed', { body: { triggerType: 'collection_item_changed', payload: { id: 'w1' } } }, ['items *']],
  ])('of %s: %s', (name, _, told, expected) => {
    expect(meaning(name, told)).toEqual(expected);
  });
});
