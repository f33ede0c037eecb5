import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { Coordination } from '../../src/database/coordination.ts';
import { openCoordination } from '../../src/database/databases.ts';
import { POSTGRES, postgresDatabase, SQLITE } from '../support/databases.ts';

/** Each in a pool of its own, as other processes would be. */
async function openHubs(count: number): Promise<[Coordination, ...Coordination[]]> {
  const address = await postgresDatabase();
  const [first, ...others] = await Promise.all(
    Array.from({ length: count }, (_, number) => opened(`${address}?application_name=hub${number}&schema=blog`)),
  );
  if (first === undefined) throw new Error('no hub was asked for');
  return [first, ...others];
}

async function opened(address: string): Promise<Coordination> {
  const hub = await openCoordination(address, systemClock);
  if (hub === null) throw new Error(`${address} has no hub`);
  onTestFinished(() => hub.close());
  return hub;
}

/** Adds one to the number that stands there, however often others come first. Returns how often they did. */
async function countUp(hub: Coordination): Promise<number> {
  let seen = await hub.readBudget('account');
  for (let conflicts = 0; ; conflicts += 1) {
    const swap = await hub.swapBudget('account', seen.version, String(Number(seen.state ?? 0) + 1));
    if (swap.isStored) return conflicts;
    seen = swap;
  }
}

it('there is no hub where one process does the work', async () => {
  expect(await openCoordination(await SQLITE.address(), systemClock)).toBeNull();
});

describe.skipIf(POSTGRES.missing !== null)('a budget of the hub', () => {
  it('loses nothing where four clients change it 250 times each', async () => {
    const hubs = await openHubs(4);
    const conflicts = await Promise.all(
      hubs.map(async (hub) => {
        let sum = 0;
        for (let turn = 0; turn < 250; turn += 1) sum += await countUp(hub);
        return sum;
      }),
    );
    expect((await hubs[0].readBudget('account')).state).toBe('1000');
    expect(Math.max(...conflicts)).toBeGreaterThan(0);
  }, 90_000);

  it('says what stands there now, and the time, whether it changed or not', async () => {
    const [mine, other] = await openHubs(2);
    const before = Date.now();
    const nothing = await mine.readBudget('account');
    expect(nothing).toMatchObject({ state: null, version: 0 });
    expect(nothing.now).toBeGreaterThan(before - 60_000);
    const first = await mine.swapBudget('account', 0, 'a');
    expect(first).toMatchObject({ isStored: true, state: 'a' });
    expect(first.version).toBeGreaterThan(0);
    expect(first.now).toBeGreaterThanOrEqual(nothing.now);
    const late = await other?.swapBudget('account', 0, 'b');
    expect(late).toMatchObject({ isStored: false, state: 'a', version: first.version });
    const second = await other?.swapBudget('account', first.version, 'b');
    expect(second).toMatchObject({ isStored: true, state: 'b' });
    expect(second?.version).toBeGreaterThan(first.version);
    expect(await mine.readBudget('account')).toMatchObject({ state: 'b', version: second?.version });
    expect(await mine.readBudget('another')).toMatchObject({ state: null, version: 0 });
  });
});

describe.skipIf(POSTGRES.missing !== null)('the lead of sources', () => {
  it('has one owner each, who keeps it, gives it back, or loses it with time', async () => {
    const [mine, other] = await openHubs(2);
    expect(await mine.lead(['blog', 'shop', 'blog'], 'me', 60_000)).toEqual(['blog', 'shop']);
    expect(await other?.lead(['shop', 'wiki'], 'other', 60_000)).toEqual(['wiki']);
    expect(await mine.lead(['blog', 'shop', 'wiki'], 'me', 60_000)).toEqual(['blog', 'shop']);
    expect(await mine.lead(['blog', 'shop'], 'me', 0)).toEqual(['blog', 'shop']);
    expect(await other?.lead(['blog'], 'other', 60_000)).toEqual(['blog']);
    await mine.resign('me');
    expect(await other?.lead(['blog', 'shop', 'wiki'], 'other', 60_000)).toEqual(['blog', 'shop', 'wiki']);
    expect(await mine.lead(['blog', 'shop', 'wiki'], 'me', 60_000)).toEqual([]);
    expect(await mine.lead([], 'me', 60_000)).toEqual([]);
  });
});
