import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { forgetKilled, rebuildKilled, verifyKilled } from './killed-commands.ts';

describe.for(DATABASES)('killed ten times on its way, on $name', (database) => {
  it('a forget is complete when it is run again', () => forgetKilled(database, 10, 3_000));
  it('a rebuild leaves the old tables or the new ones, and nothing beside them', () =>
    rebuildKilled(database, 10, 6_000));
  it('a verify, a repair and a plan make nothing worse, and end when they are run again', () =>
    verifyKilled(database, 10));
});
