import { describe, expect, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { killServe } from './serve-kills.ts';
import { longOrShort } from '../support/length.ts';

/** Up to six starts, on a machine that may be busy with everything else as well. */
const PATIENCE_MS = 240_000;

describe('serve, killed at random moments while deliveries pour in', () => {
  it(
    'F148 F177 loses nothing that it acknowledged, and ends equal to the service',
    { timeout: PATIENCE_MS },
    async () => {
      const { acked, whileListening } = await killServe({ kills: longOrShort(5, 3), seed: freshSeed() });
      expect(acked).toBeGreaterThan(0);
      expect(whileListening).toBeGreaterThan(longOrShort(2, 1));
    },
  );
});
