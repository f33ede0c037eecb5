import { describe, expect, it } from 'vitest';
import { withDefaultStore } from '../../../src/config/check-source.ts';
import { resolveFiles } from '../../../src/config/profile/file-fields.ts';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import type { JsonValue } from '../../../src/model/json.ts';
import { fileAddresses, isBelow, valuesAt, withoutSignature } from '../../../src/sync/files/file-address.ts';
import { waitAfter } from '../../../src/sync/files/file-changes.ts';

const LISTING = { baseUrl: new URL('https://cms.example.com/api'), prefix: '/v1' };

function addressesIn(files: object, record: JsonValue, key = 'a') {
  const page = { style: 'cursor', cursor_param: 'cursor', next_cursor: 'next' };
  const written = profileSchema.parse({ resources: { images: { path: '/images', page, files } } });
  const profile = withDefaultStore(written, 'disk:files');
  const source = { name: 'blog', profile, resources: ['images'] };
  const settings = { store: 'disk:files', allow_hosts: [], grace: 0, recheck: null };
  const { kept } = resolveFiles({ ...source, files: settings }, { cwd: '/', env: {}, fileMode: 0o600 });
  const images = profile.resources['images'];
  if (images === undefined) throw new Error('no images');
  return fileAddresses({ profile: images, listing: LISTING }, kept['images'] ?? [], key, record);
}

describe('addresses of files', () => {
  it('are paths of the service, whatever an id holds', () => {
    const at = '/images/{id}/file';
    expect(addressesIn({ at }, {}, 'a/b?c#d')[0]).toMatchObject({
      url: 'https://cms.example.com/api/v1/images/a%2Fb%3Fc%23d/file',
      fault: null,
    });
    expect(addressesIn({ at }, {}, '..')[0]?.fault).toContain('another path');
  });

  it.each([
    ['https://cdn.example.com/a.png#top', 'https://cdn.example.com/a.png', null],
    ['//cdn.example.com/a.png', 'https://cdn.example.com/a.png', null],
    ['/uploads/a.png', 'https://cms.example.com/uploads/a.png', null],
    ['https://me:secret@cdn.example.com/a.png', 'https://cdn.example.com/a.png', 'it holds a user name or a password'],
    ['file:///etc/passwd', 'file:///etc/passwd', 'its scheme is file:, and only http: and https: are fetched'],
    ['data:image/png;base64,AA', 'data:image/png;base64,AA', expect.stringContaining('data:')],
  ])('of a record: %s', (url, shown, fault) => {
    expect(addressesIn({ at: 'json:url' }, { url })).toMatchObject([{ url: shown, fault }]);
  });

  it.each([
    ['/api/v1/a.png', true],
    ['/api/', true],
    ['/api', true],
    ['/api/a%2Fb.png', true],
    ['/apis/a.png', false],
    ['/API/a.png', false],
    ['/', false],
    ['/admin/logout', false],
    ['/api/../admin/logout', false],
    ['/api/%2e%2e/admin/logout', false],
    ['/api/..%2Fadmin/logout', false],
    ['/api/..;/admin/logout', false],
    ['/api/%2e.%5cadmin', false],
    ['https://cdn.example.com/api/a.png', false],
    ['http://cms.example.com/api/a.png', false],
  ])('get the credential only below base_url: %s', (path, expected) => {
    for (const base of ['https://cms.example.com/api', 'https://cms.example.com/api/'])
      expect(isBelow(new URL(path, base), new URL(base))).toBe(expected);
    expect(isBelow(new URL('/any', 'https://cms.example.com'), new URL('https://cms.example.com'))).toBe(true);
  });

  it('are none where the record has none', () => {
    for (const url of [null, '', '  ', 5, {}, ['https://cdn.example.com/a']]) {
      expect(addressesIn({ at: 'json:url' }, { url })).toEqual([]);
    }
    for (const has of [false, null, 0, '', [], {}]) {
      expect(addressesIn({ at: '/images/{id}/file', when: 'has' }, { has })).toEqual([]);
    }
    expect(addressesIn({ at: '/images/{id}/file', when: 'has' }, { has: 'yes' })).toHaveLength(1);
  });

  it('keep their position in a list, and what is declared at it', () => {
    const sha256 = 'A'.repeat(64);
    const record = {
      all: [{ u: 'https://c.example.com/0', n: 5 }, {}, { u: 'https://c.example.com/2', n: '7', h: sha256 }],
    };
    const found = addressesIn({ at: 'json:all[*].u', bytes: 'all[*].n', sha256: 'all[*].h' }, record);
    expect(found.map(({ position, declared }) => [position, declared])).toEqual([
      [0, { bytes: 5, sha256: null }],
      [2, { bytes: 7, sha256: sha256.toLowerCase() }],
    ]);
    expect(valuesAt(record, 'all[*].n')).toEqual([5, undefined, '7']);
  });
});

describe('a signed address', () => {
  it('is the same file under another signature, and no other file', () => {
    const at = 'https://b.s3.amazonaws.com/a.png';
    expect(withoutSignature(`${at}?X-Amz-Date=1&X-Amz-Signature=x`)).toBe(
      withoutSignature(`${at}?X-Amz-Signature=y&X-Amz-Date=2`),
    );
    expect(withoutSignature(`${at}?id=1&sig=x`)).not.toBe(withoutSignature(`${at}?id=2&sig=x`));
  });
});

it('waits between attempts grow from a minute to a day', () => {
  expect([1, 2, 3, 9].map(waitAfter)).toEqual([60_000, 180_000, 540_000, 86_400_000]);
});
