import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Command, Ended } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import { journey, type Journey, type JourneyOptions } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';

const SMALL_PAGES = { page: { size: 10 } };
const STAGE: JourneyOptions = {
  sandbox: { generate: { content: 100, images: 15, analytics: 60 }, latency: 60 },
  profile: { resources: { content: SMALL_PAGES, images: SMALL_PAGES, analytics: SMALL_PAGES } },
};

async function timed(command: Command): Promise<Ended & { ms: number }> {
  const start = performance.now();
  const ended = await command.ended;
  return { ...ended, ms: performance.now() - start };
}

/** Rows and the checkpoint's own count of them, by resource: equal, because they are committed together. */
function counts(stage: Journey): Promise<{ resource: string; rows: number; told: number }[]> {
  return stage.read((db) =>
    db
      .prepare<[], { resource: string; told: number }>(
        'SELECT resource, walk_records AS told FROM _sync_checkpoints WHERE walk_mode IS NOT NULL ORDER BY resource',
      )
      .all()
      .map(({ resource, told }) => {
        const rows = db.prepare<[], number>(`SELECT count(*) FROM "${resource}"`).pluck().get() ?? 0;
        return { resource, told, rows };
      }),
  );
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
      const statuses = await stage.read((db) => db.prepare('SELECT DISTINCT status FROM _sync_runs').pluck().all());
      expect(statuses).toContain('interrupted');
      expect(statuses).not.toContain('running');
      const found = await counts(stage);
      expect(found.length).toBeGreaterThan(0);
      expect(found.filter(({ rows, told }) => rows !== told)).toEqual([]);
      const asked = new Set(stage.sandbox.requests.entries().map(({ path }) => path));

      stage.sandbox.requests.clear();
      expect(await stage.command('backfill')).toMatchObject({ code: 0 });
      const again = stage.sandbox.requests.entries().filter(({ path }) => asked.has(path));
      for (const pages of Map.groupBy(again, ({ resource }) => resource).values()) expect(pages).toHaveLength(1);
      expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    },
  );

  it('F147 does not wait for a service that does not answer', async () => {
    const stage = await journey(STAGE);
    stage.sandbox.faults.add({ fault: 'silence', nth: 6, times: 100 });
    const command = await stage.startUntil(7, 'backfill');
    command.kill('SIGTERM');
    const ended = await timed(command);
    expect(ended).toMatchObject({ code: 130 });
    expect(ended.ms).toBeLessThan(10_000);
  });

  it('F147 does not wait for the end of a pause that the service asked for', async () => {
    const stage = await journey(STAGE);
    stage.sandbox.faults.add({ fault: 'status', status: 429, 'retry-after': '120', nth: 5, times: 100 });
    const command = await stage.startUntil(5, 'backfill');
    await delay(200);
    command.kill('SIGINT');
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
    expect((await counts(stage)).filter(({ rows, told }) => rows !== told)).toEqual([]);
    expect(await stage.command('backfill')).toMatchObject({ code: 0 });
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });
});
