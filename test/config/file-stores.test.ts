import { expect, it } from 'vitest';
import { withDefaultStore } from '../../src/config/check-source.ts';
import { resolveFiles, storeFindings, storesOf } from '../../src/config/profile/file-fields.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';

const page = { style: 'cursor', cursor_param: 'cursor', next_cursor: 'next' };
const files = [{ at: 'json:url' }, { field: 'video', at: 'json:video', store: 's3://bucket/{source}/videos/' }];
const profile = profileSchema.parse({ resources: { images: { path: '/images', page, files } } });
const usual = { allow_hosts: [], grace: 0, recheck: null };
const place = { cwd: '/srv', env: { AWS_REGION: 'eu-central-1', HOME: '/root' }, fileMode: 0o600 };

function resolve(store: string | null) {
  const source = { name: 'blog', profile: withDefaultStore(profile, store), resources: ['images'] };
  return resolveFiles({ ...source, files: { ...usual, store } }, place);
}

it('a file goes to the store of its entry, else to that of its source, and nowhere without either', () => {
  const set = resolve('disk:data/{source}/files');
  expect(storesOf(set)).toEqual([
    { kind: 'disk', name: 'disk:data/blog/files', folder: '/srv/data/blog/files' },
    { kind: 's3', name: 's3://bucket/blog/videos/', bucket: 'bucket', prefix: 'blog/videos' },
  ]);
  expect(set.environment).toEqual({ AWS_REGION: 'eu-central-1' });
  const unset = resolve(null);
  expect(unset.kept['images']?.map(({ field }) => field)).toEqual(['video']);
});

it('two sources may not share one', () => {
  const sources = ['disk:files', 'disk:./files/'].map((store, at) => {
    return { name: at === 0 ? 'a' : 'b', profile: withDefaultStore(profile, store), resources: ['images'] };
  });
  const found = storeFindings(sources, '/srv');
  expect(found).toMatchObject([{ path: ['sources', 'b', 'files', 'store'] }]);
  expect(found[0]?.message).toContain('that of a');
});
