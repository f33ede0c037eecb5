import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { POSTGRES } from '../../support/databases.ts';
import { longOrShort } from '../../support/length.ts';
import { askingStage, figuresOf } from './asking-stage.ts';

const LONG_MS = 90_000;

/** How much of the limit they use beside other tests is no measure; the soak tests say it. */
describe.skipIf(POSTGRES.missing !== null)('processes on one account and one Postgres', () => {
  it(
    'are never over its limit, also while one is killed and one is frozen',
    async () => {
      const { sandbox, ask } = await askingStage({
        rate: longOrShort(50, 30),
        burst: 10,
        latency: 20,
      });
      const [killed, frozen, other] = await Promise.all(
        [1, 2, 3].map(() => ask({ forMs: longOrShort(9_000, 7_500), workers: longOrShort(8, 4) })),
      );
      await vi.waitFor(() => expect(sandbox.requests.total).toBeGreaterThan(10), LONG_MS);
      killed?.child.kill('SIGKILL');
      frozen?.child.kill('SIGSTOP');
      const before = sandbox.requests.total;
      await sleep(1_500);
      frozen?.child.kill('SIGCONT');
      await Promise.all([frozen, other].flatMap((script) => (script ? [figuresOf(script)] : [])));
      expect(sandbox.requests.byStatus[429]).toBeUndefined();
      expect(sandbox.requests.total - before).toBeGreaterThan(10);
    },
    LONG_MS,
  );
});
