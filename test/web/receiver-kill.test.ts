import { expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { freshSeed } from '../support/random.ts';
import { rowsIn, tempFolder } from '../support/temp-warehouse.ts';
import { killReceiver } from './receiver-kill-loop.ts';
import { receivedSource, send, signed } from './receiver-stage.ts';

const seed = freshSeed();

it(`F148 F177 every delivery that was acknowledged is in the inbox after kill -9 at random moments (SEED=${seed})`, async () => {
  const { lost, faults, acked, midway } = await killReceiver({ kills: 5, seed });
  expect({ lost, faults }).toEqual({ lost: [], faults: [] });
  expect(acked).toBeGreaterThan(20);
  expect(midway).toBeGreaterThan(0);
});

it('F147 SIGTERM leaves every acknowledged delivery, an empty log, and no process', async () => {
  const source = receivedSource(tempFolder());
  const { child, ready, ended } = startScript(new URL('receiving.ts', import.meta.url), [JSON.stringify(source)]);
  const port = Number((await ready).trim());
  expect((await send(port, signed(source))).status).toBe(202);
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  expect(rowsIn(source.inbox.replace('sqlite:', ''), 'SELECT state FROM _sync_deliveries')).toEqual([
    { state: 'waiting' },
  ]);
});
