import { describe, expect, it } from 'vitest';
import { isAllowedHeader, parsePlace, requestPlace } from '../../../src/config/profile/basic-fields.ts';

describe('the place of a value in a request', () => {
  it.each([
    ['page', { in: 'query', name: 'page' }],
    ['pagination[page]', { in: 'query', name: 'pagination[page]' }],
    ['header:X-Page', { in: 'header', name: 'x-page' }],
    ['body:paging.cursor', { in: 'body', path: ['paging', 'cursor'] }],
    ['{cursor}', { in: 'template', name: 'cursor' }],
  ])('%s', (text, place) => {
    expect(requestPlace.safeParse(text).success).toBe(true);
    expect(parsePlace(text)).toEqual(place);
  });

  it.each([
    '',
    'header:',
    'header:X Page',
    'header:Authorization',
    'header:a\r\nb',
    'body:',
    'body:a..b',
    'body:__proto__.a',
  ])('is not %j', (text) => {
    expect(requestPlace.safeParse(text).success).toBe(false);
  });

  it('leaves to the program what it writes itself', () => {
    expect(['X-Space', 'Host', 'content-length'].map(isAllowedHeader)).toEqual([true, false, false]);
  });
});
