import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { ALL_REFUSED, survives } from './refused-statements.ts';

describe.for(DATABASES)('a database on $name that refuses a statement', (database) => {
  it('keeps whole what it has, whichever statement that is', async () => {
    expect(await survives(database, ALL_REFUSED)).toBeGreaterThan(10);
  });
});
