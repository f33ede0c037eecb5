import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { POSTGRES } from '../../support/databases.ts';
import { arrived, askingStage, figuresOf } from './asking-stage.ts';

describe.skipIf(POSTGRES.missing !== null)('four processes on one account', () => {
  it.each([20, 50])('keep one budget of %i a second: no 429, and at least 90 % of it used', async (rate) => {
    const { sandbox, ask } = await askingStage({ rate, rateHeaders: 'ietf', latency: 60 });
    const figures = await Promise.all((await Promise.all([1, 2, 3, 4].map(() => ask()))).map(figuresOf));
    expect(sandbox.requests.byStatus[429]).toBeUndefined();
    expect(arrived(sandbox, 2_000, 9_000)).toBeGreaterThanOrEqual(0.9 * 7 * rate);
    const served = figures.map((each) => each['served'] ?? 0);
    expect(Math.min(...served)).toBeGreaterThan(0.5 * Math.max(...served));
  });

  it('keep it while one of them is killed and one is frozen for a while', async () => {
    const { sandbox, ask } = await askingStage({ rate: 50, rateHeaders: 'ietf', latency: 60 });
    const [killed, frozen, ...others] = await Promise.all([1, 2, 3, 4].map(() => ask()));
    await sleep(2_500);
    killed?.child.kill('SIGKILL');
    frozen?.child.kill('SIGSTOP');
    await sleep(3_000);
    frozen?.child.kill('SIGCONT');
    await Promise.all([frozen, ...others].flatMap((script) => (script ? [figuresOf(script)] : [])));
    expect(sandbox.requests.byStatus[429]).toBeUndefined();
    expect(arrived(sandbox, 2_000, 9_000)).toBeGreaterThanOrEqual(0.9 * 7 * 50);
  });
});
