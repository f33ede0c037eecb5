import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Command } from '../support/command.ts';
import { POSTGRES } from '../support/databases.ts';
import { until } from '../support/serving.ts';
import { NOTHING_LEFT, rangeStage, type RangeStage } from './range-stage.ts';

const PATIENCE_MS = 300_000;

/** The worker that holds a lease of which the name is like this. */
async function ownerOf({ stage, workers }: RangeStage, name: string): Promise<Command> {
  const [owner = ''] = await stage.read((db) =>
    db
      .prepare<[string], string>(
        "SELECT owner FROM _sync_leases WHERE name LIKE ? AND expires_at > '2000' ORDER BY name DESC",
      )
      .pluck()
      .all(name),
  );
  const found = workers.find(({ pid }) => owner.startsWith(`pid ${pid} `));
  if (found === undefined) throw new Error(`none of the workers owns ${name}, but ${owner}`);
  return found;
}

async function begun(workers: number): Promise<{ stage: RangeStage; walked: ReturnType<RangeStage['walk']> }> {
  const stage = await rangeStage({ records: 4_003, workers, latency: 150 });
  const walked = stage.walk();
  await until('under way', async () => (await stage.ranges()).filter(({ position }) => position !== null).length > 3);
  return { stage, walked };
}

describe.skipIf(POSTGRES.missing !== null)('workers in ranges that die', { timeout: PATIENCE_MS }, () => {
  it.each([1, 2, 3, 4])('one that walks a range is killed, and another one goes on with it (%i)', async () => {
    const { stage, walked } = await begun(4);
    const leader = await ownerOf(stage, 'report');
    const doomed = stage.workers.find((worker) => worker !== leader);
    doomed?.kill('SIGKILL');
    expect(await walked).toMatchObject({ status: 'ok', inserted: expect.any(Number) });
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
  });

  it.each([1, 2, 3])('the one that leads is killed, and another one leads (%i)', async () => {
    const { stage } = await begun(4);
    const leader = await ownerOf(stage, 'report');
    leader.kill('SIGKILL');
    await until('whole', () => stage.isCopied(), PATIENCE_MS);
    await until(
      'ended',
      async () => JSON.stringify(await stage.leftovers()) === JSON.stringify(NOTHING_LEFT),
      PATIENCE_MS,
    );
    expect((await stage.walk()).status).toBe('ok');
  });

  it('one that is frozen for 60 s is replaced, and writes nothing when it wakes up', async () => {
    const { stage, walked } = await begun(3);
    const leader = await ownerOf(stage, 'report');
    const frozen = stage.workers.find((worker) => worker !== leader);
    frozen?.kill('SIGSTOP');
    expect(await walked).toMatchObject({ status: 'ok' });
    frozen?.kill('SIGCONT');
    await delay(5_000);
    expect(await stage.isCopied()).toBe(true);
    expect(await stage.leftovers()).toEqual(NOTHING_LEFT);
  });
});
