import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { SQLITE } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const DAY = 86_400_000;
const START = new Date(Date.now() - 40 * DAY).toISOString().slice(0, 10);

const checked = z.object({
  resources: z.array(
    z.object({ findings: z.array(z.looseObject({ check: z.string(), status: z.string(), detail: z.string() })) }),
  ),
});

/** The machine's clock: check asks about now. */
async function stageWith(windows: Record<string, unknown> = {}, sandbox: Record<string, unknown> = {}) {
  const traffic = { windows: { start: START, largest: '5d', ...windows } };
  return journey({
    database: SQLITE,
    base: 'content-service-reports',
    sandbox: { report: ['traffic'], reportStart: START, ...sandbox },
    profile: { resources: { content: null, images: null, analytics: null, traffic } },
  });
}

async function windowsChecked(stage: Awaited<ReturnType<typeof stageWith>>) {
  const { stdout } = await stage.command('check', '--json');
  const [resource] = checked.parse(JSON.parse(stdout)).resources;
  return resource?.findings.find(({ check }) => check === 'windows');
}

describe('check of reports', () => {
  it.each<[string, Record<string, unknown>, Record<string, unknown>, string, string]>([
    ['a profile that fits', {}, {}, 'ok', 'all of these days, with the sums of views and visitors'],
    ['an end that is taken for exclusive', { to_inclusive: false }, {}, 'fail', 'are of other days by date'],
    ['a service that leaves rows out', {}, { windowCap: 5 }, 'fail', 'counted'],
    ['a cap that is known', { most: 5 }, { windowCap: 5 }, 'warn', 'as many as the service lists'],
    ['a field that is none', { field: 'day' }, {}, 'fail', 'no day'],
  ])('tells %s', async (_name, windows, sandbox, status, detail) => {
    const finding = await windowsChecked(await stageWith(windows, sandbox));
    expect(finding).toMatchObject({ status, detail: expect.stringContaining(detail) });
  });
});
