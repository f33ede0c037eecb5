import { mkdtempSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { ask } from '../support/asking.ts';
import { DATABASES } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';

const NONE = { content: null, images: null, analytics: null };
const REPORT = { path: '/report', page: { style: 'cursor' } };

/** A service of posts with tags, which the profile calls `report` at first. */
async function postsService(database: (typeof DATABASES)[number]) {
  const posts = [
    { id: 1, updated_at: '2026-01-01T00:00:00Z', tags: ['a', 'b'] },
    { id: 2, updated_at: '2026-01-02T00:00:00Z', tags: [] },
  ];
  const stage = await ownService(database, {}, () => ({ body: { data: posts, next_cursor: null } }));
  await stage.run('backfill');
  return stage;
}

const REMOVALS = DATABASES.flatMap((database, at) =>
  sampled(['the profile', 'the settings'] as const, 2, at).map((place) => ({ database, name: database.name, place })),
);

describe.for(REMOVALS)('$name: a resource that is removed from $place', ({ database, place }) => {
  it('is shown as no longer copied, and left out of exports', async () => {
    const stage = await postsService(database);
    const renamed = { ...NONE, articles: REPORT };
    stage.setProfile({ resources: place === 'the profile' ? renamed : { ...renamed, report: REPORT } });
    if (place === 'the settings') stage.setSource({ base_url: stage.service.url.href, resources: ['articles'] });
    await stage.run('sync');

    const rows = await ask(
      stage.address,
      'SELECT resource, CAST(is_copied AS INTEGER) AS is_copied FROM sync_freshness ORDER BY resource',
    );
    expect(rows).toEqual([
      { resource: 'articles', is_copied: '1' },
      { resource: 'report', is_copied: '0' },
    ]);
    expect(await ask(stage.address, 'SELECT count(*) AS n FROM report_tags_live')).toEqual([{ n: '2' }]);

    expect((await stage.command('status')).stdout).toContain('report: no longer copied, 2 rows remain');
    const status = JSON.parse((await stage.command('status', '--json')).stdout);
    expect(status.not_copied).toMatchObject([{ resource: 'report', rows: 2 }]);
    expect(status.resources.map(({ resource }: { resource: string }) => resource)).toEqual(['articles']);
    const check = await stage.command('check');
    expect(check.stdout).toMatch(/warn {2}report copied: no longer copied/);

    const folder = mkdtempSync(path.join(stage.folder, 'export-'));
    const usual = await stage.command('export', 'csv', folder);
    expect(usual.stdout).toContain('report_live, report_tags_live: left out, no longer copied');
    expect(readdirSync(folder).filter((name) => name.startsWith('report'))).toEqual([]);
    const named = await stage.command('export', 'csv', path.join(folder, 'named'), '--tables', 'report_live');
    expect(named.stdout).toContain('report_live: no longer copied');
    expect(readdirSync(path.join(folder, 'named'))).toContain('report_live');

    const dbt = (await stage.command('export', 'dbt')).stdout;
    expect([dbt.includes('articles_live'), dbt.includes('report')]).toEqual([true, false]);

    stage.setProfile({ resources: { ...NONE, report: REPORT } });
    if (place === 'the settings') stage.setSource({ base_url: stage.service.url.href });
    await stage.run('sync');
    expect((await stage.command('status')).stdout).not.toContain('report: no longer copied');
    expect(
      await ask(
        stage.address,
        "SELECT resource, CAST(is_copied AS INTEGER) AS is_copied FROM sync_freshness WHERE resource = 'report'",
      ),
    ).toEqual([{ resource: 'report', is_copied: '1' }]);
  });
});
