import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { findInFolder, findInPostgres, type Find } from '../support/find-bytes.ts';
import { eventBody, servingStage, until, type ServingStage } from '../support/serving.ts';

const KEY = 'a-privacy-key-of-this-test';
const ID = 'person-7f3a91c2';
const OLD = 'Ülrike Vormals 北京 needle-old';
const LONG = Array.from({ length: 3_000 }, (_, at) => `needle-long-${at}`).join(' ');
const NEEDLES = [
  ID,
  OLD,
  'needle-long-7 ',
  'needle-long-2999',
  'needle-child',
  'needle-deep',
  'needle-header',
  'needle-new',
];

function deep(levels: number): unknown {
  return levels === 0 ? 'needle-deep' : { next: deep(levels - 1) };
}

async function found(stage: ServingStage, database: TestDatabase): Promise<Find[]> {
  if (database.name === 'postgres') return findInPostgres(stage.address(), NEEDLES);
  return findInFolder(stage.folder, NEEDLES);
}

const waiting = (stage: ServingStage) => stage.inbox.all("SELECT * FROM _sync_deliveries WHERE state = 'waiting'");

describe.for(DATABASES)('a record that is forgotten on $name', { timeout: 40_000 }, (database) => {
  it('is in no file any more, and no walk, webhook, restart or rebuild brings it back', async () => {
    const stage = await servingStage({
      database,
      sandbox: { generate: { content: 12, images: 1, analytics: 1 } },
      profile: { resources: { content: { history: 'all' } } },
      source: { deletes: { max_part: 1 } },
      settings: { privacy_key: KEY },
    });
    const person = { note: OLD, tags: ['needle-child', 'b'], author: { name: 'needle-child' } };
    stage.write('content', ID, person);
    const serving = await stage.serve();
    await stage.fresh(serving);
    const tell = async (id: string, data: object): Promise<void> => {
      expect(await serving.deliver({ id, body: eventBody({ resource: 'content', id: ID, ...data }) })).toBe(202);
      await until('worked on', async () => (await waiting(stage)).length === 0 || waiting(stage));
    };
    stage.write('content', ID, { ...person, note: 'needle-new', text: LONG, tags: ['a', 'needle-child'] });
    await tell('msg-needle-header', { note: 'needle-new' });
    stage.write('content', ID, { ...person, note: deep(300) });
    await tell('msg-2', {});
    expect((await found(stage, database)).map((find) => find.split(': ')[1]?.slice(0, 16))).toEqual(
      expect.arrayContaining(
        NEEDLES.filter((needle) => needle !== 'needle-header').map((needle) => needle.slice(0, 16)),
      ),
    );

    const counted = await stage.run('forget', 'content', ID, '--dry-run', '--json');
    expect(counted.stderr).toBe('');
    const dry = JSON.parse(counted.stdout);
    const erased = { rows: 1, children: 2, versions: 2, rejects: 1, deletes: 0, files: 0, deliveries: 2 };
    expect(dry).toMatchObject({ outcome: 'dry run', records: 1, erased });
    const { code, stdout, stderr } = await stage.run('forget', 'content', ID, '--yes', '--json');
    expect([code, stderr]).toEqual([0, expect.anything()]);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      outcome: 'erased',
      records: 1,
      erased,
      fingerprints: [expect.stringMatching(/^[0-9a-f]{64}$/)],
    });
    expect(stdout).not.toContain(ID);
    expect(await found(stage, database)).toEqual([]);

    // The service still has it.
    stage.write('content', ID, person);
    await tell('msg-3', person);
    await serving.stop();
    expect(await found(stage, database)).toEqual([]);
    const backfill = await stage.run('backfill', 'content', '--json');
    expect(JSON.parse(backfill.stdout)).toMatchObject({ status: 'ok', resources: [{ forgotten: 1, rejected: 0 }] });
    expect(await found(stage, database)).toEqual([]);
    stage.write('content', ID, { ...person, note: deep(300) });
    const restarted = await stage.run('backfill', 'content', '--restart', '--json');
    expect(JSON.parse(restarted.stdout)).toMatchObject({ status: 'ok', resources: [{ forgotten: 1, rejected: 0 }] });
    expect(await found(stage, database)).toEqual([]);
    const [row] = await stage.all<object>('SELECT * FROM _sync_forgotten');
    expect(row).toMatchObject({ record_id: null, fingerprint: report.fingerprints[0] });

    for (const privacy_key of [undefined, 'another-key-of-somebody']) {
      stage.configure({ settings: { privacy_key } });
      const refused = await stage.run('sync', 'content');
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('[privacy_key]')]);
    }
    expect((await stage.run('forget', 'content', 'x')).code).toBe(2);
  });
});
