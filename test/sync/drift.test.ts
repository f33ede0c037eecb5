import { describe, it } from 'vitest';
import { checkDrift } from './drift-property.ts';

describe('drift', () => {
  it('F103 F117 leaves rows as one page of all current bodies would have made them', () => checkDrift(60));
});
