import { describe, expect, it } from 'vitest';
import { startScript } from '../../support/child-script.ts';
import { DATABASES, USUAL } from '../../support/databases.ts';
import { longOrShort } from '../../support/length.ts';
import { freshSeed } from '../../support/random.ts';
import { killReceiver } from './receiver-kill-loop.ts';
import { receivedSource, rowsOf, send, signed } from './receiver-stage.ts';

const seed = freshSeed();
const KILLS = longOrShort({ sqlite: 3, postgres: 2 }, { sqlite: 1, postgres: 1 });

describe.for(DATABASES)('a receiver on $name that is ended', (database) => {
  it(`F148 F177 has every delivery in the inbox that it acknowledged, after kill -9 at random moments (SEED=${seed})`, async () => {
    const { lost, faults, acked, midway } = await killReceiver({ database, kills: KILLS[database.name], seed });
    expect({ lost, faults }).toEqual({ lost: [], faults: [] });
    expect(acked).toBeGreaterThan(20);
    expect(midway).toBeGreaterThan(0);
  });
});

describe.for([USUAL])('a receiver on $name that is ended', (database) => {
  it('F147 SIGTERM leaves every acknowledged delivery, and no process', async () => {
    const source = receivedSource(await database.address());
    const { child, ready, ended } = startScript(new URL('receiving.ts', import.meta.url), [JSON.stringify([source])]);
    const port = Number((await ready).trim());
    expect((await send(port, signed(source))).status).toBe(202);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0, signal: null, stderr: '' });
    expect(await rowsOf(source, database)).toEqual([expect.objectContaining({ state: 'waiting' })]);
  });
});
