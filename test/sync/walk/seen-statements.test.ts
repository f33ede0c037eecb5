import { describe, expect, it } from 'vitest';
import type { Page } from '../../../src/extract/page.ts';
import type { PageOutcome } from '../../../src/load/page-loader.ts';
import { keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';
import { freshCheckpoint, NO_WALK } from '../../../src/state/checkpoints.ts';
import { startWalk } from '../../../src/sync/plan.ts';
import type { WalkProof } from '../../../src/sync/prove-walk.ts';
import { seenStatements } from '../../../src/sync/walk/seen-statements.ts';
import type { CheckpointRow } from '../../../src/warehouse/own-tables.ts';
import { DATABASES, warehouseOn, type TestDatabase } from '../../support/databases.ts';
import { profileWith, recordsOf } from '../../support/page-records.ts';

const BEGUN = Date.UTC(2026, 10, 20, 8);
const PROVED: WalkProof = {
  isProved: true,
  maySweep: true,
  doubts: [],
  needsCatchUp: false,
  isKept: false,
  mayRepeat: false,
};
/** None of it matters here. */
const COUNTED: PageOutcome = {
  records: 0,
  inserted: 0,
  updated: 0,
  unchanged: 0,
  rejected: 0,
  clashes: { older: 0, undecided: 0, example: null, olderExample: null },
  wentBack: 0,
  overflowed: 0,
  discarded: 0,
  repaired: 0,
};

/** A page of the service; `null` for a record without an id. */
function pageOf(number: number, ids: readonly (string | null)[], isNumbered = true): Page {
  const records = recordsOf(ids.map((id) => (id === null ? '{"n":1}' : JSON.stringify({ id }))));
  return {
    number,
    position: `/v1/content?page=${number}`,
    next: `/v1/content?page=${number + 1}`,
    requestedAt: BEGUN,
    serverDate: null,
    records,
    again: 0,
    total: null,
    keys: keyFingerprints(ids.flatMap((id) => id ?? [])),
    isNumbered,
    kept: 2,
    end: null,
    release: () => undefined,
    discard: () => undefined,
  };
}

/** A full walk of a resource whose credential is known, before its page of this number. */
function walkAt(pages: number, changed: Partial<CheckpointRow> = {}): CheckpointRow {
  const begun = startWalk(freshCheckpoint('content', 'f'), 'full', null, BEGUN);
  return { ...begun, walk_pages: pages, walk_credential: 'c', full_credential: 'c', ...changed };
}

interface Committed {
  before?: CheckpointRow;
  /** The checkpoint behind it; the walk goes on if absent. */
  after?: CheckpointRow;
  proof?: WalkProof | null;
}

async function staged(database: TestDatabase) {
  const { warehouse, rows } = await warehouseOn(database);
  const context = { warehouse, profile: profileWith(), scrub: (text: string) => text };
  /** Commits a page; returns how many statements that took. */
  const commit = async (page: Page, { before = walkAt(0), after = before, proof = null }: Committed = {}) => {
    const unkeyed = page.records.length - page.keys.length / 8;
    const facts = { ...NO_FACTS, records: page.records.length, unkeyed };
    const statements = seenStatements(context, { page, facts, counted: COUNTED, before, proof }, after);
    await warehouse.apply(statements);
    return statements.length;
  };
  const seen = () => rows('SELECT page, unkeyed, length(ids) AS bytes, position FROM _sync_seen ORDER BY page');
  return { commit, seen };
}

const NO_FACTS = {
  keys: [],
  updated: [],
  older: [],
  leftOut: [],
  lost: [],
  stated: [],
  written: [],
  rows: [],
  shapeBefore: { resource: 'content', tables: [] },
};
const at = (page: number): string => `/v1/content?page=${page}`;

describe.for(DATABASES)('what a walk has met on $name', (database) => {
  it('is a row for each page of the service', async () => {
    const { commit, seen } = await staged(database);
    expect(await commit(pageOf(1, ['a', 'b']))).toBe(2);
    expect(await commit(pageOf(2, ['c', null, 'd']), { before: walkAt(1) })).toBe(1);
    expect(await commit(pageOf(3, ['e']), { before: walkAt(2) })).toBe(1);
    expect(await commit(pageOf(4, [null]), { before: walkAt(3) })).toBe(1);
    expect(await seen()).toEqual([
      { page: 0n, unkeyed: 0n, bytes: 16n, position: at(1) },
      { page: 1n, unkeyed: 1n, bytes: 16n, position: at(2) },
      { page: 2n, unkeyed: 0n, bytes: 8n, position: at(3) },
      { page: 3n, unkeyed: 1n, bytes: 0n, position: at(4) },
    ]);
  });

  it('is forgotten by the first page of the next walk, and written once more where a page is', async () => {
    const { commit, seen } = await staged(database);
    await commit(pageOf(1, ['a']));
    await commit(pageOf(2, ['b', 'c']), { before: walkAt(1) });
    expect((await seen()).map(({ bytes }) => bytes)).toEqual([8n, 16n]);
    await commit(pageOf(1, ['z']));
    expect((await seen()).map(({ page, bytes }) => [page, bytes])).toEqual([[0n, 8n]]);
  });

  it('is kept behind a full walk that may be swept after, and by one statement forgotten behind others', async () => {
    const { commit, seen } = await staged(database);
    const done = { ...walkAt(1), ...NO_WALK };
    await commit(pageOf(1, ['a']));
    await commit(pageOf(2, ['b']), { before: walkAt(1), after: done, proof: PROVED });
    expect(await seen()).toHaveLength(2);
    for (const [before, proof] of [
      [walkAt(1), { ...PROVED, maySweep: false }],
      [walkAt(1, { walk_mode: 'incremental' }), PROVED],
      // A first walk has nothing to miss.
      [walkAt(1, { full_credential: null }), PROVED],
      [walkAt(0, { walk_mode: 'incremental' }), PROVED],
    ] as const) {
      await commit(pageOf(1, ['a']));
      expect(await commit(pageOf(2, ['b']), { before, after: done, proof })).toBe(1);
      expect(await seen()).toEqual([]);
    }
  });

  it('is kept during a first scan too, so that a resumed one counts distinct records', async () => {
    const { commit, seen } = await staged(database);
    await commit(pageOf(1, ['a'], false), { before: walkAt(0, { full_credential: null }) });
    expect(await seen()).toMatchObject([{ page: 0n, position: null }]);
    await commit(pageOf(1, ['a']), { before: walkAt(0, { full_credential: null }) });
    expect(await seen()).toMatchObject([{ page: 0n, position: at(1) }]);
  });

  it('is nothing where an empty listing has come to its end', async () => {
    const { commit, seen } = await staged(database);
    await commit(pageOf(1, []), { after: { ...walkAt(0), ...NO_WALK }, proof: PROVED });
    expect(await seen()).toEqual([]);
  });

  it('resolves the rejects that a proved full walk did not meet', async () => {
    const { commit } = await staged(database);
    const done = { ...walkAt(0), ...NO_WALK, last_success_at: '2026-11-20 08:01:00.000' };
    const last = pageOf(1, ['a']);
    expect(await commit(last, { after: done, proof: PROVED })).toBe(3);
    expect(await commit(last, { after: done, proof: { ...PROVED, isProved: false } })).toBe(2);
  });
});
