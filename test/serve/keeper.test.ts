import { writeFileSync } from 'node:fs';
import path from 'node:path';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { Keeper, type SourceWork } from '../../src/serve/keeper.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import type { SourceSettings } from '../../src/settings/settings.ts';
import { HandClock } from '../support/hand-clock.ts';
import { tempFolder, tempWarehouse } from '../support/temp-warehouse.ts';

/** A keeper whose work is written down and fails as a service that is away does. */
async function stage(problem: Error | null = null) {
  const clock = new HandClock();
  const { warehouse } = await tempWarehouse(clock);
  const log: string[] = [];
  const wanted = { problem };
  const work: SourceWork = {
    upkeepMs: 10_000,
    ticks: () => ({ stop: () => undefined }),
    governor: () => null,
    wake: () => void log.push('wake'),
    retry: () => Promise.resolve(),
    pausesChanged: () => Promise.resolve(),
    open: async (opened) => {
      if (wanted.problem !== null) throw wanted.problem;
      log.push('open');
      opened.defer(() => void log.push('close'));
      return {
        read: (read) => read(warehouse),
        checkpoints: () => Promise.resolve(null),
        isPaused: () => Promise.resolve(false),
        walk: async (resource, command) => {
          log.push(`${command} ${resource}`);
          return { source: 'blog', run_id: 'run', status: 'failed', resources: [] };
        },
        startDrain: () => null,
        upkeep: [async () => void log.push('upkeep')],
      };
    },
  };
  const errors: string[] = [];
  const lines = { write: (line: string) => void errors.push(JSON.parse(line).msg) };
  const keeper = new Keeper({ source: settings(), clock, log: pino({ level: 'error' }, lines), work });
  onTestFinished(() => keeper.stop());
  await clock.advance(0);
  const happened = (): string[] => log.splice(0);
  return { clock, keeper, wanted, errors, warehouse, happened };
}

function settings(): SourceSettings {
  const file = path.join(tempFolder(), 'config.yaml');
  const auth = { type: 'api_key', key: 'k' };
  const blog = { base_url: 'http://127.0.0.1:1', auth, profile: 'content-service', resources: ['content'] };
  writeFileSync(file, JSON.stringify({ warehouse: 'sqlite:{source}.db', sources: { blog } }));
  const { sources } = loadSettings({ path: file, env: {}, cwd: path.dirname(file) });
  const source = sources['blog'];
  if (source === undefined) throw new Error('the settings have no source');
  return source;
}

it('opens its source at once, and does work and upkeep only while it leads the source', async () => {
  const { clock, keeper, happened } = await stage();
  expect(happened()).toEqual(['open']);
  await clock.advance(60_000);
  expect(happened()).toEqual([]);
  keeper.lead(true);
  await clock.advance(1_000);
  expect(happened()).toEqual(['upkeep', 'backfill content']);
  expect(keeper.schedule()).toMatchObject([{ resource: 'content', failures: 1 }]);
  await clock.advance(10_000);
  expect(happened()).toEqual(['upkeep']);
  keeper.lead(false);
  await clock.advance(600_000);
  expect(happened()).toEqual([]);
  expect(keeper.schedule()).toEqual([]);
});

it('begins again with the next lead, also if the one before is not over yet', async () => {
  const { clock, keeper, happened } = await stage();
  keeper.lead(true);
  await clock.advance(1_000);
  happened();
  keeper.lead(false);
  keeper.lead(true);
  await clock.advance(1_000);
  expect(happened()).toEqual(['upkeep', 'backfill content']);
});

it('tries again if the source cannot be opened, and gives the reason meanwhile', async () => {
  const { clock, keeper, wanted, errors, warehouse, happened } = await stage(new Error('no disk'));
  await expect(keeper.read(async () => undefined)).rejects.toThrow('no disk');
  await clock.advance(14_000);
  expect(errors).toEqual(['the source cannot be opened: no disk']);
  wanted.problem = null;
  await clock.advance(1_000);
  expect(happened()).toEqual(['open']);
  expect(await keeper.read(async (read) => read)).toBe(warehouse);
});

it('closes everything when it is stopped', async () => {
  const { clock, keeper, errors, happened } = await stage();
  keeper.lead(true);
  await clock.advance(1_000);
  happened();
  await clock.finish(keeper.stop());
  expect(happened()).toEqual(['close']);
  await expect(keeper.read(async () => undefined)).rejects.toThrow('being opened');
  await clock.advance(600_000);
  expect(happened()).toEqual([]);
  expect(errors).toEqual([]);
});
