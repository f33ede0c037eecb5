import { describe, expect, it } from 'vitest';
import { deliveryFieldSchema, eventFieldSchema } from '../../../src/config/profile/delivery-fields.ts';

describe('a place in a delivery', () => {
  it.each([
    ['json:id', { from: 'json', name: 'id' }],
    ['json:data.object.id', { from: 'json', name: 'data.object.id' }],
    ['json:a key.with blanks', { from: 'json', name: 'a key.with blanks' }],
    ['header:X-Topic', { from: 'header', name: 'x-topic' }],
  ])('of an event: %s', (text, place) => {
    expect(eventFieldSchema.parse(text)).toEqual(place);
  });

  it.each([
    '',
    'id',
    'json:',
    'json:$.id',
    'json:a..b',
    'json:.a',
    'json:a.',
    'header:',
    'header:a b',
    'header:a:b',
    'JSON:id',
    'part:t',
    'query:id',
    'header:{family}-id',
    7,
    null,
  ])('of an event is none: %j', (text) => {
    const { error } = eventFieldSchema.safeParse(text);
    expect(error?.issues[0]?.message).toBe('expected json:<key.key> or header:<name>');
  });

  it('may be of other kinds elsewhere', () => {
    const schema = deliveryFieldSchema(['part', 'query', 'sha256']);
    expect(schema.parse('part:t')).toEqual({ from: 'part', name: 't' });
    expect(schema.parse('query:hub.mode')).toEqual({ from: 'query', name: 'hub.mode' });
    expect(schema.parse('sha256:body')).toEqual({ from: 'sha256', name: 'body' });
    expect(schema.safeParse('sha256:header').success).toBe(false);
    expect(schema.safeParse('json:id').success).toBe(false);
  });
});
