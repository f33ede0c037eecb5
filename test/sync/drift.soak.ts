import { describe, it } from 'vitest';
import { checkDrift } from './drift-property.ts';

describe('drift', () => {
  it('F103 F117 leaves rows as one page of all current bodies would have made them, 5,000 times', () =>
    checkDrift(5_000));
});
