import { describe, expect, it } from 'vitest';
import type { Certificate } from '../../../src/sync/verify/certificate.ts';
import { DATABASES } from '../../support/databases.ts';
import { journey } from '../../support/journey.ts';

describe.for(DATABASES)('a healthy copy on $name', (database) => {
  it.for(['all', 'latest', 'none'])('is equal in each mode with history %s', async (history) => {
    const fields = { history };
    const stage = await journey({
      database,
      sandbox: { records: { content: 230, images: 40, analytics: 60 } },
      profile: { resources: { content: fields, images: fields, analytics: fields } },
    });
    expect((await stage.run('backfill')).status).toBe('ok');
    for (const mode of [['--internal'], [], ['--sample', '20', '--seed', '7']]) {
      const { code, stdout, stderr } = await stage.command('verify', '--json', ...mode);
      const found = stdout
        .split('\n')
        .filter(Boolean)
        .map((line): Certificate => JSON.parse(line));
      expect({
        mode,
        stderr,
        found: found.map(({ resource, verdict, differences, not_judged, changed_since }) => ({
          resource,
          verdict,
          differences,
          not_judged,
          changed_since,
        })),
      }).toEqual({});
      expect(code).toBe(0);
    }
  });
});
