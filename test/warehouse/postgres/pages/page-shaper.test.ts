import { describe, expect, it, onTestFinished } from 'vitest';
import { CopyMemory } from '../../../../src/warehouse/postgres/connection/copy-data.ts';
import { pageThreads } from '../../../../src/warehouse/page-thread/thread-budget.ts';
import { threadedShaper } from '../../../../src/warehouse/postgres/pages/page-shaper.ts';
import { shapeBody } from '../../../../src/warehouse/postgres/pages/shape-body.ts';
import { bodyOf, messagesOf, planOf, recordText } from './shaping.ts';

const large = bodyOf(Array.from({ length: 110 }, (_, at) => recordText(at)));

/** One that has its thread: that begins with the third large page. */
async function shaperWithThread(threads = 1) {
  const most = pageThreads.most;
  pageThreads.most = threads;
  const memory = new CopyMemory();
  const shaper = threadedShaper(memory);
  onTestFinished(async () => {
    await shaper.close();
    pageThreads.most = most;
  });
  const plan = planOf();
  for (const _ of [1, 2]) expect(await shaper.shape(plan, large)).toBeNull();
  return { shaper, plan, memory };
}

describe('a shaper with a thread', () => {
  it('makes what would be made here, whatever memory comes back to it, and of each body once', async () => {
    const { shaper, plan, memory } = await shaperWithThread();
    const here = shapeBody(new CopyMemory(), plan, large);
    for (const _ of [1, 2, 3]) {
      const shaped = await shaper.shape(plan, large);
      if (shaped === null || here === null) throw new Error('it was not shaped');
      expect(shaped).toEqual(here.shaped);
      const encoded = shaper.encoded([shaped]);
      expect(messagesOf(encoded)).toEqual(messagesOf(here.encoded));
      for (const { data } of [...encoded.rows, ...encoded.versions]) memory.giveBack(data.memory);
      expect(() => shaper.encoded([shaped])).toThrow('not shaped here');
    }
  });

  it('goes by the plan that it was given, also behind one that could not be sent', async () => {
    const { shaper, plan } = await shaperWithThread();
    expect(await shaper.shape(plan, large)).not.toBeNull();
    const other = planOf('none');
    // Nothing of a profile is a function; if one ever is, nobody may take the plan for known.
    const unsendable = { ...other, profile: { ...other.profile, json: Object.assign([], { toText: () => '' }) } };
    for (const _ of [1, 2]) expect(await shaper.shape(unsendable, large)).toBeNull();
    const shaped = await shaper.shape(other, large);
    expect(shaped && shaper.encoded([shaped]).versions).toEqual([]);
  });

  it('leaves to this thread what it cannot shape, small bodies, and what comes while bodies wait', async () => {
    const { shaper, plan } = await shaperWithThread();
    expect(
      await shaper.shape(plan, bodyOf([...Array.from({ length: 110 }, (_, at) => recordText(at)), '7'])),
    ).toBeNull();
    expect(await shaper.shape(plan, bodyOf([recordText(1)]))).toBeNull();
    const asked = await Promise.all([1, 2, 3, 4].map(() => shaper.shape(plan, large)));
    expect(asked.map((shaped) => shaped !== null)).toEqual([true, true, false, false]);
  });

  it('leaves all to this thread on a single core, and once it is closed', async () => {
    const { shaper: alone, plan } = await shaperWithThread(0);
    expect(await alone.shape(plan, large)).toBeNull();
    const { shaper } = await shaperWithThread();
    await shaper.close();
    expect(await shaper.shape(plan, large)).toBeNull();
  });
});
