import { describe, expect, it, onTestFinished } from 'vitest';
import { POSTGRES } from '../support/databases.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { freshSeed } from '../support/random.ts';
import { crashUnder, endConnections, receiving } from './receiver-postgres-story.ts';

const seed = freshSeed();

describe.skipIf(POSTGRES.missing !== null)('a receiver on Postgres, under a load without any rest', () => {
  it('F136 F141 keeps what it acknowledged when its server crashes every two seconds', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const receiver = await receiving(`${server.url()}?schema=blog`);
    await crashUnder(receiver, server, { crashes: 10 });
    expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });

  it(`F137 loses nothing when its connections are ended at random (SEED=${seed})`, async () => {
    await endConnections({ address: await POSTGRES.address(), rounds: 600, seed });
  });
});
