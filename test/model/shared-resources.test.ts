import { describe, expect, it } from 'vitest';
import { SharedResources, type SharedResourceOptions } from '../../src/model/shared-resources.ts';
import { HandClock } from '../support/hand-clock.ts';

function counted(more: Partial<SharedResourceOptions<string>> = {}) {
  const log: string[] = [];
  const resources = new SharedResources<string>({
    open: async (name) => {
      log.push(`open ${name}`);
      return name.toUpperCase();
    },
    close: async (value) => void log.push(`close ${value}`),
    ...more,
  });
  return { log, resources };
}

describe('a shared resource', () => {
  it('is opened once and closed after its last release', async () => {
    const { log, resources } = counted();
    const [first, second] = await Promise.all([resources.acquire('a'), resources.acquire('a')]);
    await first.release();
    await first.release();
    expect(resources.peek('a')).toBe('A');
    await second.release();
    expect(log).toEqual(['open a', 'close A']);
    expect(resources.peek('a')).toBeNull();
  });

  it('is tried again after an opening that failed', async () => {
    let attempts = 0;
    const { resources } = counted({
      open: async () => {
        attempts += 1;
        if (attempts === 1) throw new Error('not yet');
        return 'open';
      },
    });
    await expect(resources.acquire('a')).rejects.toThrow('not yet');
    expect((await resources.acquire('a')).value).toBe('open');
  });

  it('lingers, and is not closed where somebody came in between', async () => {
    const clock = new HandClock();
    const { log, resources } = counted({ linger: { clock, ms: 1_000 } });
    await (await resources.acquire('a')).release();
    await clock.advance(999);
    const again = await resources.acquire('a');
    await again.release();
    await clock.advance(999);
    expect(log).toEqual(['open a']);
    await clock.advance(1);
    expect(log).toEqual(['open a', 'close A']);
  });

  it('is closed at once where it is asked for, or with all others', async () => {
    const clock = new HandClock();
    const { log, resources } = counted({ linger: { clock, ms: 1_000 } });
    await (await resources.acquire('a')).release(true);
    await (await resources.acquire('b')).release();
    await resources.close();
    expect(log).toEqual(['open a', 'close A', 'open b', 'close B']);
  });

  it('lingers only beside so many others', async () => {
    const clock = new HandClock();
    const { log, resources } = counted({ linger: { clock, ms: 1_000 } });
    for (const name of ['a', 'b', 'c']) await (await resources.acquire(name)).release();
    await resources.closeIdle(9);
    expect(log.slice(3)).toEqual([]);
    await resources.closeIdle(1);
    expect(log.slice(3)).toEqual(['close A', 'close B']);
    expect(resources.peek('c')).toBe('C');
  });
});
