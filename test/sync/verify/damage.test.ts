import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { VerifyReport } from '../../../src/sync/verify/report.ts';
import { DATABASES, type TestDatabase } from '../../support/databases.ts';
import { sampled } from '../../support/length.ts';
import { ownStage, type OwnStage } from '../../support/own-stage.ts';
import { asOther } from '../../support/temp-warehouse.ts';

type History = 'all' | 'latest' | 'none';
type Mode = 'whole' | 'internal';

const OPTIONS: Readonly<Record<Mode, readonly string[]>> = {
  whole: [],
  internal: ['--internal'],
};

interface Damage {
  what: string;
  /** A value for each `?`. */
  do: readonly (readonly [statement: string, ...values: unknown[]])[];
  /** The record that it is found at; null where it is at none. */
  at: string;
  /** Modes that must find it, by history; those that are not named must not claim it. */
  found: Partial<Record<History, readonly Mode[]>>;
  /** True if nothing can put it right. */
  isLost?: true;
}

const EVERY = ['whole', 'internal'] as const;
const AT_SERVICE = ['whole'] as const;
const BY_BODY = { all: EVERY, latest: EVERY, none: AT_SERVICE };
const VERSIONS = 'UPDATE _sync_versions SET';

const DAMAGES: readonly Damage[] = [
  { what: 'a cell', do: [["UPDATE content SET title = 'other' WHERE id = '7'"]], at: '7', found: BY_BODY },
  {
    what: 'a missing row',
    do: [["DELETE FROM content WHERE id = '5'"]],
    at: '5',
    found: { all: EVERY, latest: EVERY, none: EVERY },
  },
  {
    what: 'a missing row of a record without lists',
    do: [["DELETE FROM content WHERE id = '30'"]],
    at: '30',
    found: { all: EVERY, latest: EVERY, none: ['whole'] },
  },
  {
    what: 'an extra row',
    do: [
      [
        "INSERT INTO content (id, _hash, _version, _synced_at, title) SELECT 'ghost', _hash, _version, _synced_at, title FROM content WHERE id = '31'",
      ],
    ],
    at: 'ghost',
    found: BY_BODY,
  },
  {
    what: 'a lost child',
    do: [["DELETE FROM content_tags WHERE content_id = '12' AND position = 2"]],
    at: '12',
    found: BY_BODY,
  },
  {
    what: 'an extra child',
    do: [["INSERT INTO content_tags (content_id, position, value) VALUES ('14', 3, 'more')"]],
    at: '14',
    found: BY_BODY,
  },
  {
    what: 'a child of nobody',
    do: [["INSERT INTO content_tags (content_id, position, value) VALUES ('nobody', 0, 'more')"]],
    at: 'nobody',
    found: { all: EVERY, latest: EVERY, none: EVERY },
  },
  {
    what: 'the fingerprint of a row',
    do: [["UPDATE content SET _hash = 'ffff' WHERE id = '16'"]],
    at: '16',
    found: { all: EVERY, latest: EVERY, none: AT_SERVICE },
  },
  {
    what: 'the fingerprint of a version',
    do: [[`${VERSIONS} hash = 'ffff' WHERE resource = 'content' AND id = '17'`]],
    at: '17',
    found: { all: EVERY, latest: EVERY },
  },
  {
    what: 'a body',
    do: [[`${VERSIONS} body = replace(body, 'Title', 'Untitled') WHERE resource = 'content' AND id = '18'`]],
    at: '18',
    found: { all: EVERY, latest: EVERY },
    isLost: true,
  },
  {
    what: 'the end of a version',
    do: [[`${VERSIONS} valid_to = valid_from WHERE resource = 'content' AND id = '3' AND version = 2`]],
    at: '3',
    found: { all: EVERY },
  },
  {
    what: 'a gap in the versions',
    do: [["DELETE FROM _sync_versions WHERE resource = 'content' AND id = '2' AND version = 2"]],
    at: '2',
    found: { all: EVERY },
    isLost: true,
  },
  {
    what: 'a first version',
    do: [["DELETE FROM _sync_versions WHERE resource = 'content' AND id = '1' AND version = 1"]],
    at: '1',
    found: { all: EVERY },
    isLost: true,
  },
];

function record(id: number, round = 0) {
  const tags =
    id < 30 ? { tags: ['a', `b${id}`, 'c'], authors: [{ name: 'Ann', roles: ['x', 'y'] }, { name: 'Bob' }] } : {};
  const updated_at = new Date(Date.UTC(2026, 0, 1, 0, id + 60 * round)).toISOString();
  const fields = { title: `Title ${id} ${round}`, views: id * 10, price: id + 0.25, isOpen: id % 2 === 0 };
  return { id, updated_at, ...fields, ...tags, extra: id % 3 === 0 ? {} : { deep: { note: `n${id}` } } };
}

async function verified(stage: OwnStage, mode: Mode, ...more: string[]) {
  const { code, stdout, stderr } = await stage.command('verify', '--json', ...OPTIONS[mode], ...more);
  if (stdout === '') throw new Error(stderr);
  const found: VerifyReport = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  const ids = new Set(found.differences.first.flatMap(({ id }) => id ?? []));
  return { code, found, ids };
}

const COPIES = DATABASES.flatMap((database) =>
  sampled(['all', 'latest', 'none'] as const, 2, DATABASES.indexOf(database)).map((history) => ({
    database,
    history,
    name: `${database.name}, ${history}`,
  })),
);

describe.for(COPIES)('a damaged copy ($name)', ({ database, history }) => {
  it('is found to be so by every mode that claims it, and repaired', async () => {
    const records = Array.from({ length: 40 }, (_, index) => record(index + 1));
    const stage = await ownStage(database, records, { content: { history } });
    for (const round of [1, 2]) {
      stage.service.put(...[1, 2, 3].map((id) => record(id, round)));
      expect((await stage.walk('sync')).status).toBe('ok');
    }

    const mended = DAMAGES.filter(({ isLost }) => isLost !== true);
    await damage(database, stage, mended, history);
    expect(await found(stage, mended, history)).toEqual(expectedOf(mended, history));
    const repaired = await verified(stage, 'whole', '--repair');
    expect(repaired).toMatchObject({ code: 0, found: { verdict: 'equal', differences: { count: 0 } } });
    expect((await verified(stage, 'internal')).found.differences).toMatchObject({ count: 0 });

    const lost = DAMAGES.filter(({ isLost }) => isLost === true);
    await damage(database, stage, lost, history);
    expect(await found(stage, lost, history)).toEqual(expectedOf(lost, history));
    const last = lost.some(({ found: by }) => by[history]?.includes('internal')) ? 'differs' : 'equal';
    expect(await freshness(stage)).toEqual([last]);
  });
});

/** By the view that people read. */
async function freshness(stage: OwnStage): Promise<unknown[]> {
  const app = await stage.open();
  const snapshot = await app.warehouse.snapshot();
  const { rows } = await sql<{ last: string }>`SELECT last_verification AS last FROM sync_freshness`.execute(
    snapshot.own,
  );
  await snapshot.close();
  await app.close();
  return rows.map(({ last }) => last);
}

async function damage(
  database: TestDatabase,
  stage: OwnStage,
  damages: readonly Damage[],
  history: History,
): Promise<void> {
  for (const each of damages) {
    if (each.found[history] === undefined) continue;
    for (const [statement, ...values] of each.do) {
      if (database.name === 'postgres') await stage.write(statement, ...values);
      // As other programs do by themselves: without a look at keys.
      else asOther(stage.file, (db) => [db.pragma('foreign_keys = OFF'), db.prepare(statement).run(...values)]);
    }
  }
}

/** What each mode has found, by the record. */
async function found(stage: OwnStage, damages: readonly Damage[], history: History) {
  const modes: Record<string, unknown> = {};
  for (const mode of EVERY) {
    const { code, ids, found: report } = await verified(stage, mode);
    const others = report.differences.first.filter(({ id }) => damages.every(({ at }) => at !== id));
    const known = damages.flatMap(({ what, at, found: by }) =>
      ids.has(at) && by[history] !== undefined ? [what] : [],
    );
    modes[mode] = { code, known, others };
  }
  return modes;
}

function expectedOf(damages: readonly Damage[], history: History) {
  return Object.fromEntries(
    EVERY.map((mode) => {
      const known = damages.flatMap(({ what, found: by }) => ((by[history] ?? []).includes(mode) ? [what] : []));
      return [mode, { code: known.length > 0 ? 3 : 0, known, others: [] }];
    }),
  );
}
