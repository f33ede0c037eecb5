import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { asOtherClient, POSTGRES, postgresDatabase } from '../support/databases.ts';
import { differences } from '../support/compare-copy.ts';
import { journey, type Journey } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';
import { asOther } from '../support/temp-warehouse.ts';

const GENERATED = { content: 80, images: 10, analytics: 20 };

/** To be copied while it is killed. */
const RECORDS = longOrShort(3_000, 800);

/** A warehouse on SQLite with all that a sync leaves, and where it is to go. */
async function stage(): Promise<{ story: Journey; to: string; schema: string }> {
  const story = await journey({ sandbox: { generate: GENERATED } });
  const to = await postgresDatabase();
  await story.run('backfill');
  return { story, to, schema: `${to}?schema=blog` };
}

async function copy(story: Journey, to: string, ...more: string[]) {
  return story.command('copy', '--to', to, ...more);
}

/** From now on the journey's config names another warehouse. */
function setWarehouse({ config }: Journey, address: string): void {
  const settings: Record<string, unknown> = JSON.parse(readFileSync(config, 'utf8'));
  writeFileSync(config, JSON.stringify({ ...settings, warehouse: address }));
}

function unlike(story: Journey, schema: string): Promise<string[]> {
  return POSTGRES.read(schema, (db) => differences(db, story.sandbox.store));
}

describe.skipIf(POSTGRES.missing !== null)('copy to Postgres', () => {
  it('carries a warehouse over, and the next sync goes on where SQLite stood', async () => {
    const { story, to, schema } = await stage();
    const alter = (setting: string): Promise<unknown> =>
      asOtherClient(to, (client) => client.query(`ALTER DATABASE ${new URL(to).pathname.slice(1)} ${setting}`));
    // A server may quote the names of types that it prints.
    await alter('SET quote_all_identifiers TO on');
    const { store, requests } = story.sandbox;
    const [, changed, gone] = [...store.list('content')].map(({ id }) => id);
    const copied = await copy(story, to);
    expect(copied).toMatchObject({ code: 0, stderr: '' });
    expect(copied.stdout).toMatch(/content +80 rows/);
    expect(copied.stdout).toContain("warehouse: '${DATABASE_URL}'");
    setWarehouse(story, `${to}?schema={source}`);
    await alter('RESET quote_all_identifiers');
    expect(await unlike(story, schema)).toEqual([]);

    await alter('SET quote_all_identifiers TO on');
    requests.clear();
    const quiet = await story.run('sync');
    expect(await story.command('verify', '--internal')).toMatchObject({ code: 0 });
    await alter('RESET quote_all_identifiers');
    expect(
      quiet.resources.map(({ resource, mode, inserted, updated, deleted }) => [
        resource,
        mode,
        inserted,
        updated,
        deleted,
      ]),
    ).toEqual([
      ['content', 'incremental', 0, 0, 0],
      ['images', 'incremental', 0, 0, 0],
      ['analytics', 'incremental', 0, 0, 0],
    ]);
    expect(requests.total).toBe(3);

    const record: Record<string, unknown> = JSON.parse(store.get('content', changed ?? '')?.text ?? '{}');
    store.put('content', {
      ...record,
      title: 'Changed since',
      updated_at: new Date().toISOString(),
    });
    store.remove('content', gone ?? '');
    const next = await story.run('sync');
    expect(next.resources.map(({ inserted, updated }) => [inserted, updated])).toEqual([
      [0, 1],
      [0, 0],
      [0, 0],
    ]);
    await story.run('backfill');
    expect(await unlike(story, schema)).toEqual([]);
    const rows = await asOtherClient(schema, (client) =>
      client.query(
        'SELECT id, _version, _deleted_at IS NULL AS live FROM content WHERE id = ANY($1) ORDER BY _version, live',
        [[changed, gone]],
      ),
    );
    expect(rows.rows).toEqual(
      expect.arrayContaining([
        { id: changed, _version: '2', live: true },
        { id: gone, _version: '2', live: false },
      ]),
    );
  });

  it('refuses a schema that is in use, by its own tables or those of others', async () => {
    const { story, to } = await stage();
    expect(await copy(story, to)).toMatchObject({ code: 0, stderr: '' });
    const again = await copy(story, to);
    expect(again).toMatchObject({ code: 2 });
    expect(again.stderr).toContain('copy_target_used');
    const other = await postgresDatabase();
    await asOtherClient(other, (client) => client.query('CREATE SCHEMA blog; CREATE TABLE blog.mine ()'));
    const refused = await copy(story, other);
    expect(refused).toMatchObject({ code: 2 });
    expect(refused.stderr).toContain('copy_target_used');
    expect(asOther(story.file, (db) => db.prepare('SELECT count(*) FROM content').pluck().get())).toBe(80);
  });

  it('F120 leaves all or nothing whenever it is killed, and starts again', async () => {
    const story = await journey({
      sandbox: { generate: { content: RECORDS, images: 50, analytics: 50 } },
    });
    const to = await postgresDatabase();
    await story.run('backfill');
    let kills = 0;
    for (let wait = longOrShort(800, 350); ; wait *= 2) {
      const command = story.start('copy', '--to', to, '--json');
      const isOver = await Promise.race([command.ended.then(() => true), sleep(wait, false)]);
      if (!isOver) command.kill('SIGKILL');
      const { code, signal, stderr, stdout } = await command.ended;
      if (signal === 'SIGKILL') {
        kills += 1;
        continue;
      }
      // The last kill may have come right after the commit.
      if (kills > 0 && code === 2 && stderr.includes('copy_target_used')) break;
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(`"table":"content","rows":${RECORDS}`);
      break;
    }
    expect(kills).toBeGreaterThan(0);
    expect(await unlike(story, `${to}?schema=blog`)).toEqual([]);
  }, 240_000);

  it('says what is wrong with where it is to go, and never the password', async () => {
    const { story, to } = await stage();
    const url = new URL(to);
    const withPassword = `postgres://nobody_here:canary-password@${url.host}${url.pathname}`;
    await asOtherClient(to, (client) => client.query(`CREATE ROLE "poor_${process.pid}" LOGIN`));
    onTestFinished(() =>
      asOtherClient(to, async (client) => void (await client.query(`DROP ROLE "poor_${process.pid}"`))),
    );
    const wrong: [string, number, string][] = [
      ['sqlite:other.db', 2, 'a SQLite warehouse is a file'],
      ['mysql://host/db', 2, 'expected'],
      [`postgres://u:canary-password@127.0.0.1:1${url.pathname}`, 1, 'warehouse_unreachable'],
      [withPassword, 2, 'warehouse_refused'],
      [`postgres://poor_${process.pid}@${url.host}${url.pathname}`, 2, 'GRANT CREATE ON DATABASE'],
      [`${to}?schema=pg_mine`, 2, 'expected a schema'],
    ];
    const ended = await Promise.all(wrong.map(([address]) => copy(story, address)));
    for (const [at, [address, code, told]] of wrong.entries()) {
      const { code: found, stderr, stdout } = ended[at] ?? { code: null, stderr: '', stdout: '' };
      expect([address, found, stderr]).toEqual([address, code, expect.stringContaining(told)]);
      expect(stderr + stdout).not.toContain('canary');
    }
    setWarehouse(story, `${to}?schema={source}`);
    const there = await copy(story, to);
    expect(there).toMatchObject({ code: 2 });
    expect(there.stderr).toContain('is not SQLite');
  });
});
