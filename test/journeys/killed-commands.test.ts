import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { forgetKilled, rebuildKilled } from './killed-commands.ts';

describe.for(DATABASES)('killed on its way, on $name', { timeout: 180_000 }, (database) => {
  it('a forget is complete when it is run again', () =>
    forgetKilled(database, longOrShort(2, 1), longOrShort(600, 300)));
  it('a rebuild leaves the old tables or the new ones, and nothing beside them', () =>
    rebuildKilled(database, longOrShort(2, 1), longOrShort(3_000, 900)));
});
