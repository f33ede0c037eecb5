import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';
import { requestedVersion, versionText, withVersion } from '../../src/source/http-fields.ts';

const RESOURCES = { posts: { path: '/posts', page: { style: 'page', page_param: 'page' } } };

function profileWith(fields: Record<string, unknown>) {
  return profileSchema.parse({ ...fields, resources: RESOURCES });
}

const HEADER = { version_prefix: '', version: { header: { name: 'Accept-Version', value: 'v6.0' } } };

describe('the version that is asked for', () => {
  it.each<[Record<string, unknown>, string]>([
    [{}, '/v1'],
    [{ version_prefix: '' }, 'no version'],
    [HEADER, 'accept-version: v6.0'],
    [{ version: { query: { 'api-version': '2024-01-01' } } }, '/v1, api-version=2024-01-01'],
  ])('by %j is %s', (fields, text) => {
    expect(versionText(profileWith(fields))).toBe(text);
  });

  it.each<[Record<string, unknown>, string, string | null]>([
    [{}, 'v2', '/v2'],
    [{ version_prefix: '/api/v1' }, 'v2', '/api/v2'],
    [{ version_prefix: '/api/v1' }, '/rest/v2', '/rest/v2'],
    [{ version_prefix: '' }, 'v2', null],
    [{ version_prefix: '' }, '/v2', '/v2'],
    [{}, 'v2/beta', null],
    [HEADER, 'v7', 'accept-version: v7'],
    [HEADER, 'v7\r\nx: y', null],
    [{ version_prefix: '', version: { query: { v: '1' } } }, '2', 'v=2'],
    [{ version: { query: { v: '1', w: '1' } } }, '2', null],
  ])('by %j and replaced by %j is %s', (fields, version, text) => {
    const other = withVersion(profileWith(fields), version);
    expect(other && versionText(other)).toBe(text);
  });

  it('leaves everything else as it is', () => {
    const profile = profileWith({ version: { query: { v: '1' } } });
    const other = withVersion(profile, '2');
    expect(other && requestedVersion(other)).toEqual({ prefix: '/v1', headers: {}, query: { v: '2' } });
    expect(other?.resources).toBe(profile.resources);
  });

  it.each([
    [{ header: { name: 'a b', value: 'x' } }, 'version.header.name'],
    [{ header: { name: 'a', value: 'x\ny' } }, 'version.header.value'],
  ])('is refused as %j', (version, path) => {
    const { error } = profileSchema.safeParse({ version, resources: RESOURCES });
    expect(error?.issues[0]?.path.join('.')).toBe(path);
  });
});
