import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { checkDrift } from './drift-property.ts';

const RUNS = { sqlite: 5_000, postgres: 500 } as const;

describe.for(DATABASES)('drift on $name', (database) => {
  it('F103 F117 leaves rows as one page of all current bodies would have made them, for long', () =>
    checkDrift(database, RUNS[database.name]));
});
