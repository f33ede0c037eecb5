import { setTimeout as sleep } from 'node:timers/promises';
import { newMeter } from '../../../src/http/client.ts';
import { createClient } from '../../../src/http/create-client.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { profileSchema } from '../../../src/source/profile.ts';
import { openCoordination } from '../../../src/warehouse/databases.ts';
import { fastGovernor } from './fast-governor.ts';

/** A process that asks a service for pages, by tokens that it shares over a coordination, until its stdin ends. */
const [coordinationAddress = '', service = '', clientId = '', clientSecret = ''] = process.argv.slice(2);
const coordination = await openCoordination(coordinationAddress, systemClock);
const profile = profileSchema.parse({ resources: { content: { path: '/content', page: { style: 'cursor' } } } });
const governor = fastGovernor(profile);
const client = createClient({
  baseUrl: new URL(service),
  profile,
  auth: { type: 'oauth', client_id: clientId, client_secret: clientSecret },
  governor,
  clock: systemClock,
  tokens: coordination ?? undefined,
});
let isOver = false;
process.stdin.on('end', () => (isOver = true)).resume();

async function keepAsking(): Promise<number> {
  for (let asked = 0; ; asked += 1) {
    if (isOver) return asked;
    await client.get({ url: new URL('/v1/content?limit=1', service), lane: 'backfill', meter: newMeter() });
    await sleep(10);
  }
}

const lines = Array.from({ length: 3 }, keepAsking);
process.stdout.write('ready\n');
const asked = (await Promise.all(lines)).reduce((sum, count) => sum + count, 0);
await client.close();
await governor.close();
await coordination?.close();
process.stdout.write(`${asked}\n`);
