import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import type { Sandbox } from '../sandbox/service/sandbox.ts';
import type { PushedClock } from '../support/hurried-clock.ts';
import type { Random } from '../support/random.ts';

const RESOURCE = 'content';
const MINUTE = 60_000;

/** Someone who writes into the service while it is being copied. Nothing is deleted. */
export interface Editor {
  /** One to four edits: inserts, updates, a bulk stamp, now and then committed late; the service's time goes on. */
  edit(): void;
  /** Time without an edit. */
  pass(ms: number): void;
}

export function randomEditor(sandbox: Sandbox, clock: PushedClock, random: Random): Editor {
  const { store } = sandbox;
  // A coarse clock makes ties.
  const resolution = random.pick([1, 1_000, 10_000, 10 * MINUTE]);
  let inserted = 0;

  const stamp = (): string => {
    const late = random.chance(0.4) ? random.whole(0, 5 * MINUTE) : 0;
    // Rounding down is lateness too; both together stay below the overlap of ten minutes.
    const at = Math.floor(clock.now() / resolution) * resolution;
    return new Date(resolution > MINUTE ? at : at - late).toISOString();
  };
  // A record's own time never goes back: what does is an old answer, and a sync is right to leave it alone.
  const notBefore = (earlier: string | undefined): string => {
    const now = stamp();
    return earlier !== undefined && earlier > now ? earlier : now;
  };
  const put = (id: string, before: { updated_at?: string }): void =>
    store.put(RESOURCE, { ...before, ...randomFields(random), id, updated_at: notBefore(before.updated_at) });
  const insert = (): void => {
    inserted += 1;
    put(`${random.pick(['a', 'm', 'z', '~'])}${inserted}`, {});
  };
  const update = (): void => {
    const ids = [...store.list(RESOURCE)];
    if (ids.length === 0) return insert();
    const { id, text } = random.pick(ids);
    put(id, JSON.parse(text));
  };
  const bulkStamp = (): void => {
    const at = stamp();
    for (const { text } of [...store.list(RESOURCE)].filter(() => random.chance(0.3))) {
      const before: { updated_at: string } = JSON.parse(text);
      const updated_at = before.updated_at > at ? before.updated_at : at;
      store.put(RESOURCE, { ...before, updated_at, stamped: random.whole(1, 5) });
    }
  };
  return {
    edit: () => {
      for (let count = random.whole(1, 4); count > 0; count -= 1) {
        const roll = random.next();
        if (roll < 0.4) insert();
        else if (roll < 0.95) update();
        else bulkStamp();
        if (random.chance(0.3)) clock.push(random.whole(1, 20 * MINUTE));
      }
    },
    pass: (ms) => clock.push(ms),
  };
}

/** Fields that come, go and drift in type, a list of texts and one of objects. */
function randomFields(random: Random): object {
  const words = ['one', 'two', 'drei', 'ünf', '🙂', ''];
  const fields: Record<string, unknown> = {};
  for (const name of ['title', 'size', 'flag', 'mixed']) {
    if (random.chance(0.6)) fields[name] = DRIFTS[name]?.(random);
  }
  if (random.chance(0.4)) fields['tags'] = Array.from({ length: random.whole(0, 3) }, () => random.pick(words));
  if (random.chance(0.3)) {
    fields['authors'] = Array.from({ length: random.whole(0, 2) }, (_, at) => ({ handle: random.pick(words), at }));
  }
  if (random.chance(0.3)) fields['seo'] = { description: random.pick(words), rank: random.whole(0, 9) / 2 };
  return fields;
}

/** Types that a column must widen over, or that make it a JSON column beside columns and tables of its own. */
const MIXTURE: readonly unknown[] = [
  'text',
  0.25,
  true,
  '2026-01-01',
  '2026-01-01T10:00:00Z',
  { x: 1, y: 'z' },
  { x: 'text' },
  [1, 2],
  [{ q: 1 }],
];

const DRIFTS: Readonly<Record<string, (random: Random) => unknown>> = {
  title: (random) => random.pick(['A title', 'Another', null]),
  size: (random) => random.pick([1, 2.5, null, 40]),
  flag: (random) => random.pick([true, false]),
  mixed: (random) => (random.chance(0.8) ? random.whole(0, 99) : random.pick(MIXTURE)),
};

const NAMED_FAULTS: readonly FaultScript[] = [{ fault: 'short-page', count: 2 }, { fault: 'empty-page' }];

/** What may go wrong at random; each is survived by a retry, or fails the run and is made good by the next one. */
export function addRandomFaults(sandbox: Sandbox, random: Random, named: boolean): void {
  const faults: FaultScript[] = [
    { fault: 'reset' },
    { fault: 'reset', after: -1 },
    { fault: 'fin' },
    { fault: 'malformed-json' },
    { fault: 'error-body' },
    { fault: 'status', status: 500 },
    { fault: 'status', status: 503, 'retry-after': 1 },
    { fault: 'status', status: 429, 'retry-after': 1 },
    { fault: 'wrong-total' },
    // Only where an answer names the next page is nothing lost by a page cut short.
    ...(named ? NAMED_FAULTS : []),
  ];
  for (const fault of faults) {
    if (!random.chance(0.4)) continue;
    sandbox.faults.add({ ...fault, probability: random.next() * 0.12, seed: random.whole(1, 1_000_000) });
  }
}
