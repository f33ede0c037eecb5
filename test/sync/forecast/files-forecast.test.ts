import { describe, expect, it } from 'vitest';
import { filesForecast } from '../../../src/sync/forecast/files-forecast.ts';
import { journey, type Journey } from '../../support/journey.ts';

const SHOWN = { records: 10, files: 8, told: 4, toldBytes: 4_000 };
const count = (status: 'stored' | 'waiting' | 'failed' | 'gone', files: number, bytes = 0) => ({
  status,
  files,
  bytes,
});

describe('a forecast of files', () => {
  it.each([
    ['all of them, by what the records tell', SHOWN, [], 100, { requests: 80, bytes: 80_000, by: 'records' }],
    ['what is not here yet', SHOWN, [count('stored', 50, 9)], 100, { requests: 30, bytes: 30_000, by: 'records' }],
    [
      'what waits or failed',
      SHOWN,
      [count('stored', 70), count('failed', 6), count('waiting', 4)],
      100,
      { requests: 10, bytes: 10_000, by: 'records' },
    ],
    [
      'nothing again of what is gone',
      SHOWN,
      [count('stored', 79), count('gone', 1)],
      100,
      { requests: 0, bytes: 0, by: 'records' },
    ],
    [
      'the mean of those that are here',
      { ...SHOWN, told: 0, toldBytes: 0 },
      [count('stored', 40, 80_000)],
      100,
      { requests: 40, bytes: 80_000, by: 'stored' },
    ],
    [
      'no bytes where nothing tells them',
      { ...SHOWN, told: 0, toldBytes: 0 },
      [],
      100,
      { requests: 80, bytes: null, by: null },
    ],
    ['nothing without a total', SHOWN, [], null, { requests: null, bytes: null, by: 'records' }],
    ['none of no records', { records: 0, files: 0, told: 0, toldBytes: 0 }, [], 0, { requests: 0, bytes: 0, by: null }],
  ] as const)('tells %s', (_, shown, known, records, expected) => {
    expect(filesForecast(shown, known, records)).toEqual(expected);
  });
});

interface Plan {
  files: { requests: number; bytes: number } | null;
  resources: { resource: string; files: unknown }[];
}

async function plan(stage: Journey): Promise<Plan> {
  const found: Plan = JSON.parse((await stage.command('plan', 'backfill', 'images', '--json')).stdout);
  return found;
}

it('tells of the files that a store is named for, before and behind the copy', async () => {
  const stage = await journey({
    sandbox: { generate: { images: 30 } },
    profile: { resources: { images: { page: { total: 'total' } } } },
  });
  expect(await plan(stage)).toMatchObject({ files: null, resources: [{ files: null }] });
  stage.setSource({ files: { store: 'disk:pictures' } });
  const before = await plan(stage);
  expect(before).toMatchObject({ files: { requests: 30 }, resources: [{ files: { requests: 30, by: 'records' } }] });
  expect((await stage.command('plan', 'backfill', 'images')).stdout).toContain('by the sizes that the records tell');
  expect((await stage.command('backfill', 'images')).code).toBe(0);
  const bytes = await stage.read(
    (db) => db.prepare<[], { n: number }>('SELECT sum(bytes) AS n FROM _sync_files').get()?.n,
  );
  expect(before.files?.bytes).toBe(bytes);
  expect((await plan(stage)).files).toEqual({ requests: 0, bytes: 0 });
});
