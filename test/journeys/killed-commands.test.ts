import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { findInFolder, findInPostgres } from '../support/find-bytes.ts';
import { IS_LONG, longOrShort } from '../support/length.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';

/** Kills a command at a moment of its way, so many times, each a little later; `between` looks at what each has left. */
async function killed(
  stage: OwnStage,
  args: string[],
  rounds: number,
  between: () => Promise<void>,
  exit = 0,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const command = stage.start(...args);
    await Promise.race([delay(500 + (1_200 * (round + 1)) / (rounds + 1)), command.ended]);
    command.kill('SIGKILL');
    await command.ended;
    await between();
  }
  const { code, stderr } = await stage.command(...args);
  expect([stderr, code]).toEqual(['', exit]);
}

const person = (id: number) => ({
  id: `person-${id}-x`,
  updated_at: '2024-01-01T00:00:00Z',
  team: id % 3 === 0 ? 'a' : 'b',
  note: `needle-${id % 3 === 0 ? 'a' : 'b'}-${id} `.repeat(30),
  tags: [`needle-${id % 3 === 0 ? 'a' : 'b'}-child`],
});

/** A forget of a third of the records, killed on its way. */
async function forgetKilled(database: TestDatabase, rounds: number, records: number): Promise<void> {
  const people = Array.from({ length: records }, (_, at) => person(at));
  const stage = await ownStage(database, people, {
    content: { history: 'all' },
    settings: { privacy_key: 'a-privacy-key-of-this-test' },
  });
  const live = async (): Promise<void> => {
    const [row] = await stage.rows("SELECT count(*) AS n FROM content WHERE team = 'b'");
    expect(row).toEqual({ n: Math.floor((records * 2) / 3) });
  };
  const ids = (await stage.rows("SELECT id FROM content WHERE team = 'a'")).map(({ id }) => String(id));
  await killed(stage, ['forget', 'content', ...ids, '--yes'], rounds, live);
  const needles = ['needle-a-', 'person-3-x', 'person-9-x'];
  const found =
    database.name === 'sqlite' ? findInFolder(stage.folder, needles) : await findInPostgres(stage.address, needles);
  expect(found).toEqual([]);
  expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 0, forgotten: records / 3 });
  expect(await stage.rows('SELECT * FROM _sync_forgotten WHERE record_id IS NOT NULL OR cleaned_at IS NULL')).toEqual(
    [],
  );
  await live();
}

/** A rebuild, killed on its way: the tables are the old ones or the new ones at any moment. */
async function rebuildKilled(database: TestDatabase, rounds: number, records: number): Promise<void> {
  const people = Array.from({ length: records }, (_, at) => person(at));
  const stage = await ownStage(database, people, { content: { history: 'all' } });
  const look = (): Promise<unknown> =>
    stage.read((db) => [
      db.prepare<[], string>("SELECT name FROM pragma_table_info('content') ORDER BY name").pluck().all(),
      db.prepare('SELECT count(*) AS n, count(note) AS notes FROM content').get(),
      db.prepare('SELECT count(*) AS n FROM content_tags').get(),
    ]);
  const before = await look();
  const changed = { history: 'all', fields: { team: { rename: 'part' }, note: { type: 'text' } } };
  stage.setProfile({ resources: { content: changed } });
  const seen: unknown[] = [];
  await killed(stage, ['rebuild', 'content'], rounds, async () => void seen.push(await look()));
  const after = await look();
  expect(after).not.toEqual(before);
  for (const each of seen) expect([before, after]).toContainEqual(each);
  const left = await stage.all("SELECT name FROM sqlite_schema WHERE name LIKE '%beside%'");
  expect(left).toEqual([]);
  expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 0, updated: 0, unchanged: records });
}

/** A verify of a damaged copy, killed on its way: it changes nothing. */
async function verifyKilled(database: TestDatabase, rounds: number, records = 2_000): Promise<void> {
  const people = Array.from({ length: records }, (_, at) => person(at));
  const stage = await ownStage(database, people, { content: { history: 'all' } });
  await stage.write("UPDATE content SET note = 'other' WHERE team = 'a'");
  const rows = 'SELECT * FROM content ORDER BY id';
  const before = await stage.rows(rows);
  const same = async (): Promise<void> => expect(await stage.rows(rows)).toEqual(before);
  await killed(stage, ['verify'], rounds, same, 3);
  // A verification that was killed leaves no certificate, and nothing that blocks a run.
  const verdicts = await stage.rows('SELECT DISTINCT verdict FROM _sync_verifications ORDER BY verdict');
  expect(verdicts).toEqual([{ verdict: 'differs' }]);
  expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 0, updated: 0, unchanged: records });
}

const ROUNDS = longOrShort(10, 1);

describe.for(DATABASES)('killed on its way, on $name', { timeout: longOrShort(3_600_000, 180_000) }, (database) => {
  it('a forget is complete when it is run again', () => forgetKilled(database, ROUNDS, longOrShort(3_000, 300)));
  it('a rebuild leaves the old tables or the new ones, and nothing beside them', () =>
    rebuildKilled(database, ROUNDS, longOrShort(6_000, 900)));
  it.runIf(IS_LONG)('a verify changes nothing, and ends when it is run again', () => verifyKilled(database, ROUNDS));
});
