import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';

/** The places of the faults of a resource with these fields; null if it has none. */
function faults(fields: object): string[] | null {
  const resource = { path: '/posts', page: { style: 'cursor' }, ...fields };
  const { error } = profileSchema.safeParse({ resources: { posts: resource } });
  return error === undefined ? null : error.issues.map(({ path }) => path.slice(2).join('.'));
}

describe('the fields of a listing request', () => {
  it.each<[object, string[] | null]>([
    [{ method: 'POST', body: { a: ['{since}', 1, null, { b: true }] } }, null],
    [{ method: 'POST', page: { style: 'cursor', cursor_param: 'body:after', size_param: 'header:X-Size' } }, null],
    [{ path: '/sites/{partition}/posts', headers: { 'X-Site': '{partition}' } }, null],
    [{ body: {} }, ['method']],
    [{ page: { style: 'offset', offset_param: 'body:from' } }, ['method']],
    [{ incremental: { param: 'body:since' } }, ['method']],
    [{ path: '/posts?a=b' }, ['path']],
    [{ query: { a: '{sinec}' } }, ['query.a']],
    [{ headers: { Authorization: 'x' } }, ['headers.Authorization']],
    [{ headers: { 'X-A': 'a\r\nb' } }, ['headers.X-A']],
    [{ page: { style: 'page', page_param: 'header:Host' } }, ['page.page_param']],
  ])('%j', (fields, expected) => {
    expect(faults(fields)).toEqual(expected);
  });
});
