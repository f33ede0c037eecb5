import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { changeFeedSchema } from '../../src/source/change-feed.ts';
import { deleteFeedSchema } from '../../src/source/delete-fields.ts';

function faultOf(schema: z.ZodType, value: unknown): string {
  const parsed = schema.safeParse(value);
  return parsed.success ? '' : z.prettifyError(parsed.error);
}

describe('the declaration of a feed', () => {
  it.for([
    [{ next: 'a', last: 'b' }, 'either `next` or `last`'],
    [{}, 'either `next` or `last`'],
    [{ last: 'id', url: true }, 'expected `next`, because url is true'],
    [{ next: 'a', body: { cursor: '{cursor}' } }, 'expected POST'],
    [{ next: 'a', query: { since: '{since}' } }, '{cursor}'],
    [{ next: 'a', expired: { status: [401] } }, '401 never says'],
  ] as const)('of changes refuses %j', ([fields, fault]) => {
    expect(faultOf(changeFeedSchema, { mode: 'feed', ...fields })).toContain(fault);
  });

  it.for([
    [{ path: '/log', id: 'item', query: { from: '{since}' } }, 'expected the field with the time'],
    [{ path: '/log', id: 'item', body: { a: 1 } }, 'expected POST'],
    [{ path: '/log' }, 'at id'],
  ] as const)('of deletes refuses %j', ([fields, fault]) => {
    expect(faultOf(deleteFeedSchema, fields)).toContain(fault);
  });

  it('may be as short as this', () => {
    expect(faultOf(changeFeedSchema, { mode: 'feed', next: 'header:X-Next', query: { after: '{cursor}' } })).toBe('');
    expect(faultOf(deleteFeedSchema, { path: '/deleted', id: 'id' })).toBe('');
  });
});
