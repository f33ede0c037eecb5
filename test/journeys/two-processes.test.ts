import { describe, expect, it } from 'vitest';
import { differences, miscountedWalks } from '../support/compare-copy.ts';
import { DATABASES, USUAL } from '../support/databases.ts';
import { journey, type Journey, type JourneyOptions } from '../support/journey.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command, Ended } from '../support/command.ts';
import { longOrShort } from '../support/length.ts';

/** Slow enough that a second process finds the first one at work. */
const SLOW = { generate: { content: 100, images: 15, analytics: 40 }, latency: 80 };
const SMALL_PAGES = { page: { size: 10 } };
const PROFILE = { resources: { content: SMALL_PAGES, images: SMALL_PAGES, analytics: SMALL_PAGES } };

function pathsAsked(stage: Journey): string[] {
  return stage.sandbox.requests.entries().map(({ path }) => path);
}

function rowsAndRunning(stage: Journey): Promise<unknown> {
  return stage.read((db) => [
    db.prepare<[], number>('SELECT count(*) FROM content').pluck().get(),
    db.prepare<[], string>(`SELECT walk_position FROM _sync_checkpoints WHERE resource = 'content'`).pluck().get(),
  ]);
}

describe.for([USUAL])('two processes on one warehouse on $name', (database) => {
  it('F133 leaves the first one its work where both start at the same moment', async () => {
    // On a busy machine one of them may begin seconds later: the other one is still at work.
    const stage = await journey({ database, sandbox: { ...SLOW, latency: 400 }, profile: PROFILE });
    const both = await Promise.all([stage.start('backfill').ended, stage.start('backfill').ended]);
    expect(new Set(both.map(({ code }) => code))).toEqual(new Set([0, 1]));
    expect(both.find(({ code }) => code === 1)?.stderr).toContain('lease_held');
    const paths = pathsAsked(stage);
    expect(paths).toHaveLength(new Set(paths).size);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});

describe.for(DATABASES)('two processes on one warehouse on $name', (database) => {
  it('F133 ends the second one with exit 1, names the holder, and fences that one off once its lease ran out: it can no longer commit', async () => {
    const stage = await journey({ database, sandbox: SLOW, profile: PROFILE });
    const frozen = await stage.startUntil(5, 'backfill');
    frozen.kill('SIGSTOP');
    const second = await stage.command('backfill');
    expect(second).toMatchObject({ code: 1, stdout: '' });
    expect(second.stderr).toContain('lease_held');
    expect(second.stderr).toContain(`is being synced by pid ${frozen.pid} on `);
    expect(second.stderr).toContain('wait until it is done');
    await stage.write(`UPDATE _sync_leases SET expires_at = '2000-01-01 00:00:00.000'`);
    const next = await stage.command('backfill');
    expect(next).toMatchObject({ code: 0, stderr: '' });
    const before = await rowsAndRunning(stage);
    frozen.kill('SIGCONT');
    const thawed = await frozen.ended;
    expect(thawed.code).toBe(1);
    expect(thawed.stderr).toContain('lease_lost');
    expect(await rowsAndRunning(stage)).toEqual(before);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});

const PAGES_OF_A_SIGNAL = { page: { size: 10 } };
const STAGE: JourneyOptions = {
  sandbox: { generate: { content: 100, images: 15, analytics: 60 }, latency: 60 },
  profile: { resources: { content: PAGES_OF_A_SIGNAL, images: PAGES_OF_A_SIGNAL, analytics: PAGES_OF_A_SIGNAL } },
};

async function timed(command: Command): Promise<Ended & { ms: number }> {
  const start = performance.now();
  const ended = await command.ended;
  return { ...ended, ms: performance.now() - start };
}

describe('signals', () => {
  // The other one ends a pause, below.
  it.for(longOrShort(['SIGTERM', 'SIGINT'] as const, ['SIGTERM'] as const))(
    'F147 %s in the middle: exit 130, its report, a checkpoint that holds, a run that goes on',
    async (signal) => {
      const stage = await journey(STAGE);
      const command = await stage.startUntil(8, 'backfill', '--json');
      command.kill(signal);
      const ended = await timed(command);
      expect(ended).toMatchObject({ code: 130, signal: null });
      expect(ended.ms).toBeLessThan(10_000);
      // The object of --json is still printed.
      const report = JSON.parse(ended.stdout);
      expect(report).toMatchObject({ source: 'blog', status: 'interrupted' });
      expect(report.resources.map(({ resource }: { resource: string }) => resource)).toEqual([
        'content',
        'images',
        'analytics',
      ]);
      const statuses = await stage.column('SELECT DISTINCT status FROM _sync_runs');
      expect(statuses).toContain('interrupted');
      expect(statuses).not.toContain('running');
      expect(await stage.value('SELECT count(*) FROM _sync_checkpoints WHERE walk_mode IS NOT NULL')).toBeGreaterThan(
        0,
      );
      expect(await stage.read(miscountedWalks)).toEqual([]);
      const asked = new Set(stage.sandbox.requests.entries().map(({ path }) => path));

      stage.sandbox.requests.clear();
      expect(await stage.command('backfill')).toMatchObject({ code: 0 });
      const again = stage.sandbox.requests.entries().filter(({ path }) => asked.has(path));
      for (const pages of Map.groupBy(again, ({ resource }) => resource).values()) expect(pages).toHaveLength(1);
      expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    },
  );

  it.for([
    ['a service that does not answer', { fault: 'silence', nth: 6, times: 100 }, 7, 'SIGTERM'],
    ['a pause', { fault: 'status', status: 429, 'retry-after': '120', nth: 5, times: 100 }, 5, 'SIGINT'],
  ] as const)('F147 does not wait for the end of %s', async ([, fault, requests, signal]) => {
    const stage = await journey(STAGE);
    stage.sandbox.faults.add(fault);
    const command = await stage.startUntil(requests, 'backfill');
    await delay(200);
    command.kill(signal);
    const ended = await timed(command);
    expect(ended).toMatchObject({ code: 130 });
    expect(ended.ms).toBeLessThan(10_000);
  });

  it('F147 a second signal ends it at once, and what was committed holds', async () => {
    const stage = await journey(STAGE);
    const command = await stage.startUntil(8, 'backfill');
    command.kill('SIGTERM');
    command.kill('SIGINT');
    const ended = await timed(command);
    expect(ended).toMatchObject({ code: 130 });
    expect(ended.ms).toBeLessThan(2_000);
    expect(await stage.read(miscountedWalks)).toEqual([]);
    expect(await stage.command('backfill')).toMatchObject({ code: 0 });
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});
