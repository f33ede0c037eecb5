import { describe, expect, it, onTestFinished } from 'vitest';
import { electLeader } from '../../../src/server/cluster/keep-lead.ts';
import { POSTGRES, preparedPostgres } from '../../support/databases.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { until } from '../../support/serving.ts';

/** Leads are renewed every 5 s. */
const clock = hurriedClock(20);

function leader(address: string, sources: readonly string[]) {
  const now = { leads: [] as string[], errors: [] as unknown[], lead: null as ReturnType<typeof electLeader> | null };
  const renewed = (led: ReadonlySet<string>): void => void (now.leads = [...led].toSorted());
  now.lead = electLeader({
    address,
    sources: () => sources,
    clock,
    renewed,
    failed: (error) => void now.errors.push(error),
  });
  onTestFinished(() => now.lead?.stop());
  return now;
}

describe.skipIf(POSTGRES.missing !== null)('the lead of the sources on a database', () => {
  it('is kept by the first process that takes it, and taken over by another one when that resigns', async () => {
    const address = `${await preparedPostgres()}?schema=blog`;
    const first = leader(address, ['blog', 'shop']);
    await until('the first lead', () => first.leads.length === 2);
    const second = leader(address, ['blog', 'shop', 'wiki']);
    await until('a lead of what is free', () => second.leads.length > 0);
    await clock.sleep(12_000);
    expect([first.leads, second.leads]).toEqual([['blog', 'shop'], ['wiki']]);
    await first.lead?.stop();
    await until('the second one to take over', () => second.leads.length === 3);
    expect([first.errors, second.errors]).toEqual([[], []]);
  });
});

it('is not had while the server is away', async () => {
  const alone = leader('postgres://127.0.0.1:1/nowhere?schema=blog', ['blog']);
  await until('an error', () => alone.errors.length > 0);
  expect(alone.leads).toEqual([]);
});
