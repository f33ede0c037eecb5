import { describe, expect, it, onTestFinished } from 'vitest';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { type Course, play, type Play, type PlayOptions, walkedAt } from './play.ts';

const START = Date.parse('2026-11-20T08:00:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const EVERY_MINUTE = { incremental: '* * * * *' };

function started(options: Partial<PlayOptions> = {}): Play & { clock: HandClock } {
  const clock = new HandClock(START);
  const resources = { content: walkedAt(START - 1_000) };
  const played = play({ clock, schedule: EVERY_MINUTE, resources, ...options });
  played.scheduler.start();
  onTestFinished(() => played.scheduler.stop());
  return { ...played, clock };
}

const beginnings = ({ runs }: Play, resource = 'content'): number[] =>
  runs.filter((run) => run.resource === resource).map(({ began }) => began / 1_000);

const unreachable = (): Course => ({ lasts: 0, status: 'failed', code: 'unreachable' });

const never = (signal: AbortSignal): Promise<Course> =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve({}), { once: true });
  });

describe('the scheduler', () => {
  it('walks what was never walked at once, and then keeps to the schedule', async () => {
    const played = started({ resources: { content: null } });
    await played.clock.advance(3 * MINUTE);
    expect(beginnings(played)).toEqual([0, 60, 120, 180]);
    expect(played.runs.map(({ command }) => command)).toEqual(['backfill', 'sync', 'sync', 'sync']);
  });

  it('begins at the second of its jitter, not at the next tick', async () => {
    const jitter = 30_000;
    const resources = { content: walkedAt(START), images: walkedAt(START), analytics: walkedAt(START) };
    const played = started({ schedule: { incremental: '*/10 * * * *', jitter }, resources });
    await played.clock.advance(19 * MINUTE);
    const seconds = Object.keys(resources).flatMap((name) => beginnings(played, name));
    expect(seconds).toHaveLength(6);
    expect(new Set(seconds.map((second) => Math.round((second % 600) * 1_000))).size).toBe(3);
    for (const second of seconds) expect(second % 600).toSatisfy((late: number) => late > 0 && late < 30);
  });

  it('F150 never has two runs of a resource at once, and after one that took too long goes on with the next', async () => {
    let first = true;
    const course = (): Course => {
      const lasts = first ? 7.5 * MINUTE : 2_000;
      first = false;
      return { lasts };
    };
    const played = started({ course });
    await played.clock.advance(10 * MINUTE);
    expect(beginnings(played)).toEqual([0, 480, 540, 600]);
  });

  it('F152 goes on with the others, and later with the one, where a run throws or hangs', async () => {
    const resources = { content: walkedAt(START), images: walkedAt(START), analytics: walkedAt(START) };
    let thrown = 0;
    const course: PlayOptions['course'] = (resource, _, signal) => {
      if (resource === 'images') return never(signal);
      return resource === 'content' && (thrown += 1) < 3 ? { throws: new TypeError('a bug') } : {};
    };
    const played = started({ resources, course });
    await played.clock.advance(5 * MINUTE);
    expect(beginnings(played, 'analytics')).toEqual([60, 120, 180, 240, 300]);
    expect(beginnings(played, 'images')).toEqual([60]);
    // Tried again after one minute and after two.
    expect(beginnings(played, 'content')).toEqual([60, 122, 244, 300]);
    expect(played.failures.map(String)).toEqual(['TypeError: a bug', 'TypeError: a bug']);
    expect(played.scheduler.states()).toMatchObject([
      { resource: 'content', failures: 0, running: { command: 'sync' } },
      { resource: 'images', running: { command: 'sync', since: START + MINUTE } },
      { resource: 'analytics', failures: 0 },
    ]);
  });

  it.each<[string, Course, number[]]>([
    ['twice as long each time, up to 15 minutes', { status: 'failed', code: 'unreachable' }, [0, 1, 3, 7, 15, 30, 45, 60]],
    ['an hour where the credential is refused', { status: 'failed', code: 'auth_failed' }, [0, 60]],
    ['a minute where it was put off', { status: 'deferred', code: 'deferred' }, [0, 1, 2, 3]],
    ['not at all where only records were set aside', { status: 'partial' }, [0, 1, 2, 3]],
  ])('waits %s', async (_, course, minutes) => {
    const played = started({ course: () => ({ lasts: 0, ...course }) });
    await played.clock.advance((minutes.at(-1) ?? 0) * MINUTE + 1);
    expect(beginnings(played)).toEqual(minutes.map((minute) => minute * 60));
    expect(played.failures).toEqual([]);
  }); // prettier-ignore

  it('waits after a first walk that failed on its way, which has stored its place', async () => {
    const begun = { ...walkedAt(START), last_success_at: null, last_full_at: null, walk_mode: 'full' as const };
    const played = started({
      resources: { content: null },
      course: () => {
        played.stored.set('content', begun);
        return unreachable();
      },
    });
    await played.clock.advance(4 * MINUTE);
    expect(beginnings(played)).toEqual([0, 60, 180]);
  });

  it('F042 leaves what is parked alone until its time, also after restarts', async () => {
    const parked = { ...walkedAt(START - HOUR), due_at: timestampText(START + 10 * MINUTE) };
    const played = started({ resources: { content: parked }, course: () => ({ lasts: 0 }) });
    let { scheduler } = played;
    for (let restart = 0; restart < 9; restart += 1) {
      await played.clock.advance(MINUTE);
      await scheduler.stop();
      scheduler = played.restart();
      scheduler.start();
    }
    onTestFinished(() => scheduler.stop());
    await played.clock.advance(MINUTE - 1);
    expect(played.runs).toEqual([]);
    expect(scheduler.states()).toMatchObject([{ nextAt: START + 10 * MINUTE }]);
    await played.clock.advance(1);
    expect(beginnings(played)).toEqual([600]);
  });

  it.each([HOUR, -HOUR])('F074 goes on minute by minute while the clock steps by %d ms', async (step) => {
    const played = started({ course: () => ({ lasts: 0 }) });
    await played.clock.advance(5.5 * MINUTE);
    played.clock.step(step);
    await played.clock.advance(5.5 * MINUTE);
    const gaps = beginnings(played).map((at, index, all) => at - (all[index - 1] ?? at));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(61);
    expect(gaps.slice(1).filter((gap) => gap < 59).length).toBeLessThanOrEqual(1);
    expect(beginnings(played)).toHaveLength(12);
  });

  it('F074 does not run a daily walk twice for a clock that is set back by an hour', async () => {
    const resources = { content: walkedAt(START - 24 * HOUR) };
    const played = started({ schedule: { full: '30 8 * * *' }, resources });
    await played.clock.advance(45 * MINUTE);
    played.clock.step(-HOUR);
    await played.clock.advance(26 * HOUR);
    const [first, second, ...more] = played.runs.slice(-2);
    expect([first?.beganAt, second?.beganAt, more]).toEqual([START + 30 * MINUTE, START + 24.5 * HOUR, []]);
  });
});

describe('scanNow', () => {
  const SELDOM = { incremental: '0 0 * * *' };

  it('walks at once, once for all that ask before it begins, and again for who asks while it runs', async () => {
    const played = started({ schedule: SELDOM });
    const done: string[] = [];
    const ask = (name: string) => played.scheduler.scanNow('content', 'sync').then(() => done.push(name));
    await played.clock.advance(MINUTE);
    void ask('one');
    void ask('two');
    await played.clock.advance(1_000);
    void ask('three');
    expect([beginnings(played), done]).toEqual([[60], []]);
    await played.clock.advance(1_000);
    expect(done).toEqual(['one', 'two']);
    await played.clock.advance(3_000);
    expect([beginnings(played), done]).toEqual([
      [60, 62],
      ['one', 'two', 'three'],
    ]);
  });

  it('waits after a refused credential if a delivery asks, and not if a user does', async () => {
    const played = started({ schedule: SELDOM, course: () => ({ lasts: 0, status: 'failed', code: 'auth_failed' }) });
    const ask = (how: 'scanNow' | 'scanWhenAllowed') =>
      void played.scheduler[how]('content', 'sync').catch(() => undefined);
    ask('scanWhenAllowed');
    await played.clock.advance(5_000);
    ask('scanWhenAllowed');
    await played.clock.advance(30 * MINUTE);
    expect(beginnings(played)).toEqual([0]);
    await played.clock.advance(31 * MINUTE);
    expect(beginnings(played)).toEqual([0, 3_600]);
    ask('scanNow');
    await played.clock.advance(2_000);
    expect(beginnings(played)).toHaveLength(3);
  });

  it('refuses a resource that it does not know, and all that is left when it stops', async () => {
    const played = started({ schedule: SELDOM, course: (_, __, signal) => never(signal) });
    await expect(played.scheduler.scanNow('pages', 'sync')).rejects.toMatchObject({ code: 'settings_invalid' });
    const asked = played.scheduler.scanNow('content', 'sync').catch((error: unknown) => error);
    await played.clock.advance(1_000);
    await played.scheduler.stop();
    expect(await asked).toMatchObject({ status: 'interrupted' });
    await expect(played.scheduler.scanNow('content', 'sync')).rejects.toMatchObject({ code: 'interrupted' });
  });
});

describe('stop', () => {
  it('aborts what runs, waits for its end, and begins nothing more', async () => {
    const played = started({ course: () => ({ lasts: 10 * MINUTE }) });
    await played.clock.advance(MINUTE);
    await played.scheduler.stop();
    expect(played.runs).toMatchObject([{ status: 'interrupted', ended: MINUTE }]);
    await played.clock.advance(HOUR);
    expect(played.runs).toHaveLength(1);
  });
});

describe('figures', () => {
  it('tell what failed, when it is tried again, and what is overdue', async () => {
    const played = started({ schedule: { incremental: '*/10 * * * *' }, course: unreachable });
    const figures = () => played.scheduler.states()[0];
    await played.clock.advance(9 * MINUTE);
    expect(figures()).toMatchObject({ failures: 4, nextAt: START + 15 * MINUTE });
    await played.clock.advance(16 * MINUTE);
    expect(figures()).toMatchObject({ failures: 5, overdueAt: START + 15 * MINUTE, running: null });
  });
});
