import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { checkDrift } from './drift-property.ts';

/** A database of its own for each run takes Postgres a tenth of a second. */
const RUNS = { sqlite: 25, postgres: 5 } as const;

describe.for(DATABASES)('drift on $name', (database) => {
  it('F103 F117 leaves rows as one page of all current bodies would have made them', () =>
    checkDrift(database, RUNS[database.name]));
});
