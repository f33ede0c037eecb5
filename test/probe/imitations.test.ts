import { describe, expect, it } from 'vitest';
import { toYaml } from '../../src/probe/profile.ts';
import { type FakeRecord, SECRET, USER } from './imitations/imitation.ts';
import { directus } from './imitations/directus.ts';
import { wordPress } from './imitations/word-press.ts';
import { copyBy, probed } from './probed.ts';

const SERVICES = [
  {
    name: 'WordPress',
    open: wordPress,
    user: USER,
    paths: [],
    resources: ['posts', 'tags'],
  },
  { name: 'Directus', open: directus, user: undefined, paths: [], resources: ['articles', 'tags'] },
  {
    name: 'Directus by its paths',
    open: directus,
    user: undefined,
    paths: ['/items/articles', 'items/tags'],
    resources: ['articles', 'tags'],
  },
];

const sorted = (records: readonly FakeRecord[]): string[] => records.map((record) => JSON.stringify(record)).toSorted();

describe('services that answer as real ones', () => {
  it.each(SERVICES)('$name: the profile that is found gives the copy', async ({ open, user, paths, resources }) => {
    const service = await open();
    const result = await probed(service.url, { credential: { secret: SECRET, user }, paths });
    if (process.env['SHOW']) console.log(toYaml(result), service.requests.length, service.requests);
    expect(result.requests).toBeLessThanOrEqual(60);
    expect(result.resources.map(({ name }) => name).toSorted()).toEqual(resources);
    const copy = copyBy(result);
    expect(await copy.faults()).toEqual([]);
    const statuses = (await copy.run('backfill')).resources.map(({ resource, status, error }) => [
      resource,
      status,
      error,
    ]);
    const expected = result.resources.map(({ name }) => [name, 'ok', undefined]);
    expect(statuses).toEqual(expected);
    expect(Object.values(result.profile.resources).flatMap(({ unverified }) => unverified)).toEqual([]);
    for (const name of resources) expect(sorted(copy.bodies(name))).toEqual(sorted(service.records(name)));
    service.edit();
    expect((await copy.run('sync')).resources.map(({ status }) => status)).toEqual(
      expected.map(([, status]) => status),
    );
    for (const name of resources) expect(sorted(copy.bodies(name))).toEqual(sorted(service.records(name)));
  });
});
