import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { differences } from '../../support/compare-copy.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { journey } from '../../support/journey.ts';

const EITHER = eitherDatabase(import.meta.filename);

const ARENA = 'MALLOC_ARENA_MAX=1';
const GENERATE = { content: 240, images: 20, analytics: 20 };

it.for(EITHER)('with memory: low the process begins anew, and the copy is the same on $name', async (database) => {
  const sandbox = { generate: GENERATE, latency: 20, pagination: 'page' } as const;
  const stage = await journey({
    database,
    base: 'content-service-page',
    sandbox,
    profile: { resources: { content: { page: { size: 20 } } } },
    settings: { memory: 'low' },
  });
  const command = await stage.startUntil(3, 'backfill');
  const environment = process.platform === 'linux' ? readFileSync(`/proc/${command.pid}/environ`, 'utf8') : ARENA;
  expect(environment).toContain(ARENA);
  const { code, stderr } = await command.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
});
