import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { formatVersion } from '../../../src/config/profile/request-fields.ts';

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
    expect(formatVersion(profileWith(fields))).toBe(text);
  });

  it.each([
    [{ header: { name: 'a b', value: 'x' } }, 'version.header.name'],
    [{ header: { name: 'a', value: 'x\ny' } }, 'version.header.value'],
  ])('is refused as %j', (version, path) => {
    const { error } = profileSchema.safeParse({ version, resources: RESOURCES });
    expect(error?.issues[0]?.path.join('.')).toBe(path);
  });
});
