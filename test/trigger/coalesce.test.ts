import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Coalescer, type Work } from '../../src/trigger/coalesce.ts';

function coalescer(changed: Partial<ConstructorParameters<typeof Coalescer>[0]> = {}): Coalescer<number> {
  return new Coalescer({ spacingMs: 1_000, atOnce: 4, atOncePerResource: 3, ...changed });
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
    const work = coalescer();
    work.add('content', 'a', 1);
    const first = started(work, 0);
    first.waiting.splice(0);
    work.add('content', 'a', 2);
    expect(work.start(5_000)).toBeNull();
    work.end(first, 5_000);
    expect(work.nextAt()).toBe(6_000);
    expect(work.start(5_999)).toBeNull();
    expect(started(work, 6_000).waiting).toEqual([2]);
  });

  it('forgets what nobody asks for any more', () => {
    const work = coalescer();
    work.add('content', 'a', 1);
    const first = started(work, 0);
    first.waiting.splice(0);
    work.end(first, 0);
    expect(work.start(1_000)).toBeNull();
    expect(work.nextAt()).toBeNull();
    work.add('content', 'a', 2);
    expect(begun(work, 1_000)).toEqual(['content a']);
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

  it('serves each request once, in bounds, spaced, and leaves none behind, whatever happens', () => {
    const step = fc.record({
      resource: fc.constantFrom('a', 'b', 'c'),
      key: fc.constantFrom('1', '2'),
      waits: fc.nat(400),
    });
    fc.assert(fc.property(fc.array(step, { maxLength: 200 }), played));
  });
});

interface Step {
  resource: string;
  key: string;
  waits: number;
}

/** Adds, begins and ends at random times; throws where a promise of the coalescer is broken. */
function played(steps: readonly Step[]): void {
  const work = coalescer();
  const endedAt = new Map<string, number>();
  const served: number[] = [];
  let underWay: Work<number>[] = [];
  let now = 0;
  const turn = (): void => {
    const ends = underWay.splice(0, 1 + (now % 2));
    for (const one of ends) {
      endedAt.set(one.resource + one.key, now);
      work.end(one, now);
    }
    for (let next = work.start(now); next !== null; next = work.start(now)) {
      expect(now - (endedAt.get(next.resource + next.key) ?? -Infinity)).toBeGreaterThanOrEqual(1_000);
      served.push(...next.waiting.splice(0));
      underWay.push(next);
    }
    expect(underWay.length).toBeLessThanOrEqual(4);
    expect(
      Math.max(
        0,
        ...Map.groupBy(underWay, (one) => one.resource)
          .values()
          .map((all) => all.length),
      ),
    ).toBeLessThan(4);
  };
  for (const [number, { resource, key, waits }] of steps.entries()) {
    work.add(resource, key, number);
    now += waits;
    turn();
  }
  while (underWay.length > 0 || work.nextAt() !== null) {
    now = Math.max(now, underWay.length > 0 ? now : (work.nextAt() ?? now));
    turn();
  }
  underWay = [];
  expect(served.toSorted((a, b) => a - b)).toEqual(steps.map((_, number) => number));
}
