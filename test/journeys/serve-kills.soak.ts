import { describe, expect, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { killServe } from './serve-kills.ts';

const KILLS = Number(process.env['KILLS'] ?? 100);

describe('serve, killed many times while deliveries pour in', () => {
  it(`F148 F177 loses nothing that it acknowledged in ${KILLS} kills`, async () => {
    const seed = freshSeed();
    const { acked, whileListening, cutOff } = await killServe({ kills: KILLS, seed });
    console.log(
      `${KILLS} kills (SEED=${seed}), ${whileListening} of them while it listened: ${acked} acknowledged, ` +
        `${Math.round(cutOff / KILLS)} in the inbox and not yet worked on at a kill, 0 lost`,
    );
    expect(acked).toBeGreaterThan(KILLS);
  });
});
