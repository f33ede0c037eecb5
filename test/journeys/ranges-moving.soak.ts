import { describe, expect, it } from 'vitest';
import { POSTGRES } from '../support/databases.ts';
import type { ListingDialect } from '../support/moving-listing.ts';
import { freshSeed, randomFrom, type Random } from '../support/random.ts';
import { PAGE, rangeStage, type RangeStage } from './range-stage.ts';

const SEED = freshSeed();
const WALKS = 40;
const RECORDS = 203;
const ORDERS = ['id', 'updated', 'newest'] as const satisfies ListingDialect['order'][];

/** Changes a listing at random, and knows what it has touched. */
class Editor {
  readonly #stage: RangeStage;
  readonly #random: Random;
  #touched = new Set<number>();
  #last = RECORDS;

  constructor(stage: RangeStage, random: Random) {
    this.#stage = stage;
    this.#random = random;
  }

  edit(): void {
    const { items } = this.#stage.listing;
    const id = this.#random.pick([...items.keys()]);
    const acts = ['create', 'create', 'create', 'change', 'change', 'remove', 'remove', 'remove page'] as const;
    // Not so few that nothing would be cut.
    const act = items.size < RECORDS / 2 ? 'create page' : this.#random.pick(acts);
    if (act === 'create') this.#change((this.#last += 1));
    if (act === 'create page') for (let more = 0; more < 2 * PAGE; more += 1) this.#change((this.#last += 1));
    if (act === 'change') this.#change(id);
    if (act === 'remove') this.#remove(id);
    if (act === 'remove page') for (let at = id; at < id + PAGE + 3; at += 1) this.#remove(at);
  }

  /** Those that were touched since this was asked last. */
  takeTouched(): ReadonlySet<number> {
    const touched = this.#touched;
    this.#touched = new Set();
    return touched;
  }

  #remove(id: number): void {
    this.#stage.listing.remove(id);
    this.#touched.add(id);
  }

  #change(id: number): void {
    this.#stage.listing.change(id);
    this.#touched.add(id);
  }
}

/** Untouched records in which the copy is not the listing. */
async function differencesOf({ stage, listing }: RangeStage, touched: ReadonlySet<number>): Promise<string[]> {
  const rows = await stage.read((db) =>
    db
      .prepare<[], { id: number | bigint; title: string }>('SELECT id, title FROM report WHERE _deleted_at IS NULL')
      .all(),
  );
  const copied = new Map(rows.map(({ id, title }) => [Number(id), title]));
  const ids = new Set([...copied.keys(), ...listing.items.keys()]);
  return [...ids]
    .filter((id) => !touched.has(id) && copied.get(id) !== listing.items.get(id)?.title)
    .map((id) => `${id}: ${copied.get(id) ?? 'none'}, should be ${listing.items.get(id)?.title ?? 'none'}`);
}

describe.skipIf(POSTGRES.missing !== null)('workers in ranges of a listing that moves', { timeout: 1_200_000 }, () => {
  it.each(ORDERS)(`copy what nobody touches, or say that they may not have, by %s (SEED=${SEED})`, async (order) => {
    const random = randomFrom(SEED);
    // However many are gone, nobody is asked.
    const deletes = { max_rows: 10_000, max_part: 1 };
    const stage = await rangeStage({ records: RECORDS, workers: 3, latency: 10, listing: { order }, deletes });
    const editor = new Editor(stage, random);
    const ends = new Map<string, number>();
    for (let walk = 1; walk <= WALKS; walk += 1) {
      const many = random.pick([0, 1, 3, 8]);
      const asked = stage.listing.requests;
      const at = Array.from({ length: many }, () => asked + random.whole(2, 30));
      stage.listing.before = (request) => at.filter((one) => one === request).forEach(() => editor.edit());
      const { status, warnings = [] } = await stage.walk();
      stage.listing.before = () => undefined;
      const end = [status, ...warnings.map(({ code }) => code)].join(' ');
      ends.set(end, (ends.get(end) ?? 0) + 1);
      const touched = editor.takeTouched();
      const differences = status === 'ok' ? await differencesOf(stage, touched) : [];
      expect({ walk, order, many, differences }).toEqual({ walk, order, many, differences: [] });
      for (let edits = random.whole(0, 3); edits > 0; edits -= 1) editor.edit();
      editor.takeTouched();
      await stage.forgive();
    }
    console.log(`${WALKS} walks by ${order}: ${[...ends].map(([end, count]) => `${count} x ${end}`).join(', ')}`);
    expect(ends.get('ok') ?? 0).toBeGreaterThan(WALKS / 4);
  });
});
