import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { LoadablePage } from '../../src/load/prepare-page.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { ownRange } from '../../src/state/owned-range.ts';
import { POSTGRES, warehouseOn } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';

const { signal } = new AbortController();

/** Loaders of two ranges of one resource, as two processes have them, each with tables and a lease of its own. */
async function twoRanges() {
  const { warehouse, rows } = await warehouseOn(POSTGRES);
  const owners = ownResources(warehouse, systemClock);
  const parts = { ...profilesFor(profileWith({ history: 'all' })), runId: 'run', clock: systemClock, signal };
  const open = async (range: number): Promise<PageLoader> => {
    const owned = await ownRange({ warehouse, clock: systemClock, resource: 'content', range, signal, owners });
    onTestFinished(() => owned.release());
    return openPageLoader({ warehouse, owned, ...parts }, { acceptsOlder: false, seenBefore: new Map() });
  };
  const standing = (): Promise<unknown[]> =>
    rows(
      'SELECT c.id, c.n, c._version, v.body FROM content c JOIN _sync_versions v ON v.id = c.id AND v.valid_to IS NULL ORDER BY 1',
    );
  return { one: await open(0), other: await open(1), standing };
}

function page(at: number, ...texts: string[]): LoadablePage {
  return { records: recordsOf(texts), requestedAt: at };
}

const load = (loader: PageLoader, of: LoadablePage) => loader.load(of, () => []);
const text = (n: number): string => `{"id":"1","n":${n}}`;

describe.skipIf(POSTGRES.missing !== null)('a page that was compared before another process wrote', () => {
  it('what it took for new is compared again, and a later state stays', async () => {
    const { one, other, standing } = await twoRanges();
    const late = page(1_000, text(1), '{"id":"2","n":2}');
    one.prepare(late);
    expect(await load(other, page(2_000, text(7)))).toMatchObject({ inserted: 1 });
    expect(await load(one, late)).toMatchObject({ inserted: 1, updated: 0 });
    expect(await standing()).toEqual([
      { id: '1', n: 7n, _version: 1n, body: text(7) },
      { id: '2', n: 2n, _version: 1n, body: '{"id":"2","n":2}' },
    ]);
  });

  it('what it took for changed becomes the version after the other one’s', async () => {
    const { one, other, standing } = await twoRanges();
    await load(one, page(1_000, text(1)));
    const next = page(3_000, text(3));
    one.prepare(next);
    expect(await load(other, page(2_000, text(2)))).toMatchObject({ updated: 1 });
    expect(await load(one, next)).toMatchObject({ updated: 1 });
    expect(await standing()).toEqual([{ id: '1', n: 3n, _version: 3n, body: text(3) }]);
  });

  it('fits tables that have grown meanwhile, and ranges of one process take turns in that', async () => {
    const { one, other, standing } = await twoRanges();
    const [first, second] = [page(1_000, '{"id":"1","n":1,"a":1}'), page(1_000, '{"id":"2","n":2,"a":"x","b":true}')];
    one.prepare(first);
    other.prepare(second);
    await Promise.all([load(one, first), load(other, second)]);
    await load(one, page(2_000, '{"id":"3","n":3,"a":"y","b":false}'));
    expect((await standing()).length).toBe(3);
  });
});
