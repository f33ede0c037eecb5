import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Coalescer, type Work } from '../../../src/trigger/drain/coalesce.ts';

const PACE = { everyMs: 1_000, burst: 2, restMs: 100 };
/** As walks are paced: no second one at once, and from the end of the one before. */
const PATIENT = { everyMs: 1_000, burst: 1, restMs: 1_000 };

function coalescer(changed: Partial<ConstructorParameters<typeof Coalescer>[0]> = {}): Coalescer<number> {
  return new Coalescer({ ...PACE, atOnce: 4, atOncePerResource: 3, ...changed });
}

/** Everything that may begin at `now`, as `resource key`. */
function begun(of: Coalescer<number>, now = 0): string[] {
  const names: string[] = [];
  for (let work = of.start(now); work !== null; work = of.start(now)) names.push(`${work.resource} ${work.key}`);
  return names;
}

function started(of: Coalescer<number>, now: number): Work<number> {
  const work = of.start(now);
  if (work === null) throw new Error('nothing may begin');
  return work;
}

describe('coalescing', () => {
  it('begins at once for the first, and makes later ones share', () => {
    const work = coalescer();
    for (const request of [1, 2, 3]) work.add('content', 'a', request);
    expect(started(work, 0).waiting).toEqual([1, 2, 3]);
    expect(begun(work)).toEqual([]);
  });

  it('begins the same again only when it has ended and rested', () => {
    const work = coalescer(PATIENT);
    work.add('content', 'a', 1);
    const first = started(work, 0);
    first.waiting.splice(0);
    work.add('content', 'a', 2);
    expect(work.start(5_000)).toBeNull();
    work.end(first, 5_000);
    expect(work.nextAt(5_000)).toBe(6_000);
    expect(work.start(5_999)).toBeNull();
    expect(started(work, 6_000).waiting).toEqual([2]);
  });

  it('makes later ones wait from the beginning of the last, however long that took', () => {
    const work = coalescer({ burst: 1, restMs: 0 });
    expect(beginnings(work, { every: 10, until: 3_500, takes: 700 })).toEqual([0, 1_000, 2_000, 3_000, 4_000]);
  });

  it.each<[string, readonly number[], readonly number[]]>([
    ['one alone begins at once', [0], [0]],
    ['an edit and its publishing begin in a row', [0, 300], [0, 300]],
    ['a second one in the same moment rests for it', [0, 5], [0, 110]],
    ['three share two, and the third waits its second', [0, 200, 400], [0, 200, 1_000]],
    ['what comes while it rests shares one', [0, 200, 400, 500, 999], [0, 200, 1_000]],
    [
      'after a pause of one token it is one at once, then one a second later',
      [0, 200, 1_200, 1_300],
      [0, 200, 1_200, 2_000],
    ],
    ['after a pause of two tokens there are two in a row again', [0, 200, 2_000, 2_200], [0, 200, 2_000, 2_200]],
    ['one a second is never kept waiting', [0, 1_000, 2_000, 3_000, 4_000], [0, 1_000, 2_000, 3_000, 4_000]],
  ])('%s', (_, asked, begins) => {
    expect(beginnings(coalescer(), { asked, takes: 10 })).toEqual(begins);
  });

  it('spends the two tokens of a storm once, and lives on what comes in', () => {
    const begins = beginnings(coalescer({ everyMs: 1_050 }), { every: 5, until: 20_000, takes: 10 });
    expect(begins).toHaveLength(22);
    expect(begins.slice(0, 4)).toEqual([0, 110, 1_050, 2_100]);
    expect(begins.at(-1)).toBe(21_000);
  });

  it('looks first at what is rested first, not at what ended first', () => {
    const work = coalescer();
    // Without a token left, and with one.
    beginnings(work, { asked: [0, 100], takes: 0 });
    work.add('content', 'a', 1);
    work.add('content', 'b', 1);
    const fresh = started(work, 500);
    expect(fresh.key).toBe('b');
    fresh.waiting.splice(0);
    work.add('content', 'b', 2);
    work.end(fresh, 500);
    expect(work.nextAt(500)).toBe(600);
    expect(begun(work, 600)).toEqual(['content b']);
    expect(begun(work, 1_000)).toEqual(['content a']);
  });

  it('forgets what nobody asks for any more once its tokens are back', () => {
    const work = coalescer();
    beginnings(work, { asked: [0, 200], takes: 0 });
    expect(work.start(1_999)).toBeNull();
    expect(work.nextAt(1_999)).toBe(2_000);
    expect(work.start(2_000)).toBeNull();
    expect(work.nextAt(2_000)).toBeNull();
    expect(beginnings(work, { asked: [2_000, 2_100], takes: 0 })).toEqual([2_000, 2_100]);
  });

  it('keeps a place free for other resources, and lets them take turns', () => {
    const work = coalescer();
    for (const key of ['a', 'b', 'c', 'd', 'e']) work.add('content', key, 1);
    expect(begun(work)).toEqual(['content a', 'content b', 'content c']);
    work.add('images', 'x', 1);
    work.add('images', 'y', 1);
    expect(begun(work)).toEqual(['images x']);
    const turns = coalescer({ atOnce: 4 });
    for (const key of ['a', 'b', 'c']) for (const name of ['content', 'images']) turns.add(name, key, 1);
    expect(begun(turns)).toEqual(['content a', 'images a', 'content b', 'images b']);
  });

  it('tells keys of different resources apart, whatever they hold', () => {
    const work = coalescer();
    work.add('content', '__proto__', 1);
    work.add('images', '__proto__', 2);
    expect(begun(work)).toEqual(['content __proto__', 'images __proto__']);
  });

  it('gives back all who wait for a resource, also those behind work that is under way', () => {
    const work = coalescer({ atOnce: 1 });
    work.add('content', 'a', 1);
    const first = started(work, 0);
    first.waiting.splice(0);
    work.add('content', 'a', 2);
    work.add('content', 'b', 3);
    work.add('images', 'x', 4);
    expect(work.withdraw('content')).toEqual([2, 3]);
    work.end(first, 0);
    expect(begun(work, 10_000)).toEqual(['images x']);
  });

  it.each([PACE, PATIENT, { everyMs: 300, burst: 5, restMs: 0 }])(
    'serves each request once, in bounds, spaced, and leaves nothing behind, whatever happens: %o',
    (pace) => {
      const step = fc.record({
        resource: fc.constantFrom('a', 'b', 'c'),
        key: fc.constantFrom('1', '2'),
        waits: fc.oneof(fc.nat(20), fc.nat(400), fc.nat(3_000)),
      });
      fc.assert(fc.property(fc.array(step, { maxLength: 200 }), (steps) => played(steps, pace)));
    },
  );
});

interface Asking {
  /** When it is asked for: at these moments, or at every so many milliseconds until a moment. */
  asked?: readonly number[];
  every?: number;
  until?: number;
  takes: number;
}

/** When work on one record begins that always takes so long; on a hand-wound clock, a millisecond at a time. */
function beginnings(of: Coalescer<number>, { asked, every = 1, until = 0, takes }: Asking): number[] {
  const requests = new Set(asked ?? Array.from({ length: until / every + 1 }, (_, n) => n * every));
  const begins: number[] = [];
  let [unserved, underWay]: [number, Work<number> | null] = [requests.size, null];
  const endAt = (now: number): void => {
    if (underWay === null || now < (begins.at(-1) ?? 0) + takes) return;
    of.end(underWay, now);
    underWay = null;
  };
  for (let now = Math.min(...requests); unserved > 0 || underWay !== null; now += 1) {
    if (requests.delete(now)) of.add('content', 'a', now);
    endAt(now);
    const work = of.start(now);
    if (work === null) continue;
    begins.push(now);
    unserved -= work.waiting.splice(0).length;
    underWay = work;
    endAt(now);
  }
  return begins;
}

interface Step {
  resource: string;
  key: string;
  waits: number;
}

/** Adds, begins and ends at random times; throws where a promise of the coalescer is broken. */
function played(steps: readonly Step[], pace: typeof PACE): void {
  const work = coalescer(pace);
  const begins = new Map<string, number[]>();
  const ends = new Map<string, number>();
  const served: number[] = [];
  const underWay: Work<number>[] = [];
  let now = 0;
  const turn = (): void => {
    for (const one of underWay.splice(0, 1 + (now % 2))) {
      ends.set(one.resource + one.key, now);
      work.end(one, now);
    }
    for (let next = work.start(now); next !== null; next = work.start(now)) {
      const name = next.resource + next.key;
      expect(now - (ends.get(name) ?? -Infinity)).toBeGreaterThanOrEqual(pace.restMs);
      begins.set(name, [...(begins.get(name) ?? []), now]);
      served.push(...next.waiting.splice(0));
      underWay.push(next);
    }
    expectInBounds(underWay);
  };
  for (const [number, { resource, key, waits }] of steps.entries()) {
    work.add(resource, key, number);
    now += waits;
    turn();
  }
  for (let next = work.nextAt(now); underWay.length > 0 || next !== null; next = work.nextAt(now)) {
    if (underWay.length === 0 && next !== null) now = Math.max(now, next);
    turn();
  }
  expect(served.toSorted((a, b) => a - b)).toEqual(steps.map((_, number) => number));
  for (const times of begins.values()) expectPaced(times, pace);
}

function expectInBounds(underWay: readonly Work<number>[]): void {
  const resources = Map.groupBy(underWay, ({ resource }) => resource).values();
  expect(underWay.length).toBeLessThanOrEqual(4);
  expect(Math.max(0, ...resources.map((all) => all.length))).toBeLessThanOrEqual(3);
}

/** Between any two beginnings there are no more of them than the bucket held at most and got meanwhile. */
function expectPaced(times: readonly number[], { burst, everyMs }: typeof PACE): void {
  for (const [first, from] of times.entries()) {
    for (const [more, at] of times.slice(first).entries()) {
      expect(more + 1).toBeLessThanOrEqual(burst + (at - from) / everyMs);
    }
  }
}
