import { expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { killReceiver } from './receiver-kill-loop.ts';

const seed = freshSeed();

it.for(DATABASES)(
  `F148 F177 nothing that was acknowledged is lost in 100 kills on $name (SEED=${seed})`,
  async (database) => {
    const { lost, faults, acked, midway } = await killReceiver({ database, kills: 100, seed });
    process.stdout.write(`${acked} acknowledged deliveries, ${midway} of 100 kills with some under way\n`);
    expect({ lost, faults }).toEqual({ lost: [], faults: [] });
    expect(midway).toBeGreaterThan(50);
  },
);
