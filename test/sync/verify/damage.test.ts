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
  /** What the report names to put it right, with stored bodies and without. */
  remedies: readonly [withBodies: Remedy, without?: Remedy];
}

const REMEDIES = {
  backfill: ['backfill', 'content'],
  rebuild: ['warehouse', 'rebuild', 'content'],
  restart: ['backfill', 'content', '--restart'],
};

type Remedy = keyof typeof REMEDIES;

const EVERY = ['whole', 'internal'] as const;
const AT_SERVICE = ['whole'] as const;
const BY_BODY = { all: EVERY, latest: EVERY, none: AT_SERVICE };
const VERSIONS = 'UPDATE _sync_versions SET';

const DAMAGES: readonly Damage[] = [
  {
    what: 'a cell',
    remedies: ['rebuild', 'restart'],
    do: [["UPDATE content SET title = 'other' WHERE id = '7'"]],
    at: '7',
    found: BY_BODY,
  },
  {
    what: 'a missing row',
    remedies: ['restart', 'restart'],
    do: [["DELETE FROM content WHERE id = '5'"]],
    at: '5',
    found: { all: EVERY, latest: EVERY, none: EVERY },
  },
  {
    what: 'a missing row of a record without lists',
    remedies: ['restart', 'backfill'],
    do: [["DELETE FROM content WHERE id = '30'"]],
    at: '30',
    found: { all: EVERY, latest: EVERY, none: ['whole'] },
  },
  {
    what: 'an extra row',
    remedies: ['restart', 'backfill'],
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
    remedies: ['rebuild', 'restart'],
    do: [["DELETE FROM content_tags WHERE content_id = '12' AND position = 2"]],
    at: '12',
    found: BY_BODY,
  },
  {
    what: 'an extra child',
    remedies: ['rebuild', 'restart'],
    do: [["INSERT INTO content_tags (content_id, position, value) VALUES ('14', 3, 'more')"]],
    at: '14',
    found: BY_BODY,
  },
  {
    what: 'a child of nobody',
    remedies: ['rebuild', 'restart'],
    do: [["INSERT INTO content_tags (content_id, position, value) VALUES ('nobody', 0, 'more')"]],
    at: 'nobody',
    found: { all: EVERY, latest: EVERY, none: EVERY },
  },
  {
    what: 'the fingerprint of a row',
    remedies: ['restart', 'backfill'],
    do: [["UPDATE content SET _hash = 'ffff' WHERE id = '16'"]],
    at: '16',
    found: { all: EVERY, latest: EVERY, none: AT_SERVICE },
  },
  {
    what: 'the fingerprint of a version',
    remedies: ['restart'],
    do: [[`${VERSIONS} hash = 'ffff' WHERE resource = 'content' AND id = '17'`]],
    at: '17',
    found: { all: EVERY, latest: EVERY },
  },
  {
    what: 'a body',
    remedies: ['restart'],
    do: [[`${VERSIONS} body = replace(body, 'Title', 'Untitled') WHERE resource = 'content' AND id = '18'`]],
    at: '18',
    found: { all: EVERY, latest: EVERY },
  },
  {
    what: 'the end of a version',
    remedies: ['restart'],
    do: [[`${VERSIONS} valid_to = valid_from WHERE resource = 'content' AND id = '3' AND version = 2`]],
    at: '3',
    found: { all: EVERY },
  },
  {
    what: 'a gap in the versions',
    remedies: ['restart'],
    do: [["DELETE FROM _sync_versions WHERE resource = 'content' AND id = '2' AND version = 2"]],
    at: '2',
    found: { all: EVERY },
  },
  {
    what: 'a first version',
    remedies: ['restart'],
    do: [["DELETE FROM _sync_versions WHERE resource = 'content' AND id = '1' AND version = 1"]],
    at: '1',
    found: { all: EVERY },
  },
];

function record(id: number, round = 0) {
  const tags =
    id < 30 ? { tags: ['a', `b${id}`, 'c'], authors: [{ name: 'Ann', roles: ['x', 'y'] }, { name: 'Bob' }] } : {};
  const updated_at = new Date(Date.UTC(2026, 0, 1, 0, id + 60 * round)).toISOString();
  const fields = { title: `Title ${id} ${round}`, views: id * 10, price: id + 0.25, isOpen: id % 2 === 0 };
  return { id, updated_at, ...fields, ...tags, extra: id % 3 === 0 ? {} : { deep: { note: `n${id}` } } };
}

async function verified(stage: OwnStage, mode: Mode) {
  const { code, stdout, stderr } = await stage.command('verify', '--json', ...OPTIONS[mode]);
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
  it('is found to be so by every mode that claims it, and the commands that it names put it right', async () => {
    const records = Array.from({ length: 40 }, (_, index) => record(index + 1));
    const stage = await ownStage(database, records, { content: { history } });
    let round = 0;
    const change = async (): Promise<void> => {
      round += 1;
      stage.service.put(...[1, 2, 3].map((id) => record(id, round)));
      expect((await stage.walk('sync')).status).toBe('ok');
    };
    await change();
    await change();
    const damages = DAMAGES.filter(({ found: by }) => by[history] !== undefined);
    for (const each of damages) {
      await damage(database, stage, [each], history);
      const { found: report } = await verified(stage, 'whole');
      const [withBodies, without] = each.remedies;
      const remedy = REMEDIES[history === 'none' ? (without ?? withBodies) : withBodies];
      expect([each.what, report.remedies]).toEqual([each.what, [`content-sync ${remedy.join(' ')}`]]);
      await stage.command(...remedy);
      const right = await verified(stage, 'whole');
      expect([each.what, right.code, right.found.differences.count]).toEqual([each.what, 0, 0]);
      // A restart has forgotten the earlier versions.
      await change();
      await change();
    }
    await damage(database, stage, damages, history);
    expect(await found(stage, damages, history)).toEqual(expectedOf(damages, history));
    expect(await freshness(stage)).toEqual(['differs']);
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
