import { describe, expect, it } from 'vitest';
import type { VerifyReport } from '../../../src/sync/verify/report.ts';
import type { VerifyRequest } from '../../../src/sync/verify/verify-resource.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { reportStage, type ReportStage } from '../../views/reports/report-stage.ts';

const HOUR = 3_600_000;

async function verified(stage: ReportStage, mode: VerifyRequest['mode']): Promise<VerifyReport> {
  const app = await stage.open(stage.clock);
  try {
    return await app.verify({ mode, resource: 'traffic', signal: new AbortController().signal });
  } finally {
    await app.close();
  }
}

describe.for(eitherDatabase(import.meta.filename))('verify of reports, on $name', (database) => {
  it('compares the windows that are final, range by range, and says which it left out', async () => {
    const stage = await reportStage(database, '2026-02-01', '2026-02-20T12:00:00.000Z', { largest: '5d' });
    expect((await stage.run('backfill', { clock: stage.clock })).status).toBe('ok');
    // What is restated since the run is no difference.
    stage.clock.push(7 * HOUR);
    const report = await verified(stage, 'whole');
    expect(report).toMatchObject({ verdict: 'equal', listing: { total: null } });
    expect(report.not_compared.join()).toContain('windows, from 2026-02-17 on, that may still change');
    expect((await verified(stage, 'internal')).verdict).toBe('equal');
  });

  it('is not misled by answers that are cut short without a word', async () => {
    const service = { windowCap: 50 };
    const stage = await reportStage(database, '2026-02-01', '2026-02-20T12:00:00.000Z', {}, service);
    expect((await stage.run('backfill', { clock: stage.clock })).status).toBe('ok');
    expect(await verified(stage, 'whole')).toMatchObject({ verdict: 'equal' });
  });

  it('finds a row of a final window that is gone, and names what puts it right', async () => {
    const stage = await reportStage(database, '2026-02-01', '2026-02-12T12:00:00.000Z');
    await stage.run('backfill', { clock: stage.clock });
    await stage.write(
      "UPDATE traffic SET _deleted_at = _synced_at WHERE date = '2026-02-03' AND page = '/' AND referrer = 'search'",
    );
    const { verdict, remedies } = await verified(stage, 'whole');
    expect({ verdict, remedies }).toEqual({
      verdict: 'differs',
      remedies: ['content-sync backfill traffic --restart'],
    });
    await stage.run('backfill', { clock: stage.clock, restart: true });
    expect((await verified(stage, 'whole')).verdict).toBe('equal');
  });
});
