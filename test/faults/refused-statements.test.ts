import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { survives, type Refused } from './refused-statements.ts';

/** The soak refuses them all. */
const REFUSED: readonly Refused[] = [
  { table: '_sync_checkpoints', operation: 'UPDATE', pages: 1 },
  { table: '_sync_versions', operation: 'INSERT', pages: 0 },
  { table: '_sync_suspects', operation: 'DELETE', pages: 0 },
  { table: '_sync_runs', operation: 'UPDATE', pages: 0 },
  { table: '_sync_leases', operation: 'UPDATE', pages: 2 },
];

describe.for(DATABASES)('a database on $name that refuses a statement', (database) => {
  it('keeps whole what it has', async () => {
    expect(await survives(database, REFUSED)).toBe(REFUSED.length);
  });
});
