import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { asOtherClient, eitherDatabase, type TestDatabase } from '../support/databases.ts';
import type { Journey } from '../support/journey.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';
import type { OwnRecord } from '../support/record-service.ts';

const KEY = 'canary-hash-key-0123456789';
/** Values that may stand nowhere. */
const HIDDEN = ['jane@example.org', 'joe@example.org', '4155550123', 'moved@example.org', 'secret draft note'];

const FIELDS = {
  'author.email': { hash: true },
  'contacts.mail': { hash: true },
  contacts: { description: 'Who was asked' },
  phone: { hash: true },
  notes: { exclude: true },
  'author.name': { rename: 'author_name' },
  views: { type: 'bigint', description: 'Times read', unit: 'views' },
};

function record(id: number, fields: Record<string, unknown> = {}): OwnRecord {
  return {
    id,
    updated_at: `2024-01-0${id}T00:00:00Z`,
    title: `No. ${id}`,
    author: { name: 'Jane', email: 'jane@example.org' },
    contacts: [{ mail: 'joe@example.org' }, { mail: null }, { mail: 'jane@example.org' }],
    phone: 4155550123,
    notes: { text: 'secret draft note' },
    views: String(id),
    ...fields,
  };
}

/** All that stands in the warehouse, and all files beside the settings. */
async function everything(stage: Journey, database: TestDatabase): Promise<string> {
  const ours = new Set(['content-sync.yaml', 'profile.yaml']);
  const files = readdirSync(stage.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !ours.has(entry.name))
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)).toString('latin1'));
  if (database.name === 'sqlite') return files.join('\n');
  const rows = await asOtherClient(stage.address, async (client) => {
    const tables = await client.query<{ name: string }>(
      `SELECT relname AS name FROM pg_class WHERE relkind IN ('r', 'v', 'm') AND relnamespace = current_schema()::regnamespace`,
    );
    const found: unknown[] = [];
    for (const { name } of tables.rows) found.push((await client.query(`SELECT t::text FROM "${name}" AS t`)).rows);
    return found;
  });
  return [...files, JSON.stringify(rows)].join('\n');
}

async function expectHidden(stage: OwnStage, database: TestDatabase, hidden = HIDDEN): Promise<void> {
  const text = await everything(stage, database);
  expect(text).toContain('No. 1');
  expect([...hidden, KEY].filter((value) => text.includes(value))).toEqual([]);
}

const versions = (stage: OwnStage) =>
  stage.rows('SELECT id, version, body, source_text FROM _sync_versions ORDER BY id, version');

describe.for(eitherDatabase(import.meta.filename))('hidden fields on $name', { timeout: 60_000 }, (database) => {
  const open = (
    content: Record<string, unknown> = {},
    records = [record(1), record(2), record(3, { views: 'many' })],
  ) =>
    ownStage(database, records, {
      content: { history: 'all', fields: FIELDS, ...content },
      source: { hash_key: KEY, deletes: { max_part: 1 } },
    });

  it('are nowhere: not in tables, versions, rejects, views or the inbox, through changes and deletes', async () => {
    const stage = await open();
    const [first, second, ...others] = await stage.rows();
    expect(others).toEqual([]);
    expect(first).toMatchObject({
      id: '1',
      author_name: 'Jane',
      views: 1,
      phone: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    expect(first).not.toHaveProperty('notes_text');
    expect(first?.['author_email']).toBe(second?.['author_email']);
    const contacts = await stage.rows('SELECT mail FROM content_contacts WHERE content_id = 1 ORDER BY position');
    expect(contacts.map(({ mail }) => mail)).toEqual([
      expect.stringMatching(/^[0-9a-f]{32}$/),
      null,
      first?.['author_email'],
    ]);
    expect(await stage.rows('SELECT record_id, reason FROM _sync_rejects')).toEqual([
      { record_id: '3', reason: 'contract' },
    ]);

    const history = 'SELECT author_name, author_email, views FROM content_history ORDER BY id';
    const shown =
      database.name === 'sqlite'
        ? await stage.rows(history)
        : await asOtherClient(stage.address, async (client) => (await client.query(history)).rows);
    expect(JSON.parse(JSON.stringify(shown).replaceAll(/"(\d)"/g, '$1'))).toEqual(
      [1, 2].map((views) => ({ author_name: 'Jane', author_email: first?.['author_email'], views })),
    );

    // What is hidden changes nothing that is seen; what is hashed changes.
    stage.service.put(record(1, { updated_at: '2024-01-01T00:00:00Z', notes: { text: 'secret draft note, edited' } }));
    expect(await stage.walk()).toMatchObject({ updated: 0 });
    const listening = await stage.listen();
    stage.service.put(
      record(2, { updated_at: '2024-02-02T00:00:00Z', author: { name: 'Jane', email: 'moved@example.org' } }),
    );
    expect(await listening.hear(2)).toEqual(['loaded']);
    const [, moved] = await stage.rows();
    expect(moved?.['author_email']).not.toBe(first?.['author_email']);
    expect(moved).toMatchObject({ _version: 2 });
    stage.service.records.delete('2');
    expect(await listening.hear(2, 'deleted')).toContain('deleted');
    await listening.close();
    expect((await versions(stage)).map(({ id, version }) => [id, version])).toEqual([
      ['1', 1],
      ['2', 1],
      ['2', 2],
      ['2', 3],
    ]);
    await expectHidden(stage, database);
  });

  it('are rebuilt hidden: from bodies after a widening, and by --restart under the same key', async () => {
    const stage = await open({ history: 'latest' });
    const before = await stage.rows();
    stage.service.put(record(4, { updated_at: '2024-03-01T00:00:00Z', title: { de: 'No. 4' } }));
    await stage.walk('sync');
    expect(await stage.rows(`SELECT id FROM content WHERE title LIKE '{%'`)).toHaveLength(1);
    await stage.run('backfill', { restart: true });
    const after = await stage.rows();
    expect(after.map((row) => row['author_email'])).toEqual(Array(3).fill(before[0]?.['author_email']));
    await expectHidden(stage, database);
  });

  it('may be kept as they were sent beside the versions, and nowhere else', async () => {
    const stage = await open({ source_text: 'kept' });
    const kept = await versions(stage);
    expect(kept.map(({ source_text }) => JSON.parse(String(source_text)))).toEqual([record(1), record(2)]);
    expect(kept.every(({ body }) => HIDDEN.every((value) => !String(body).includes(value)))).toBe(true);
    stage.service.put(record(1, { updated_at: '2024-01-05T00:00:00Z' }));
    await stage.walk();
    stage.service.records.delete('1');
    await stage.walk();
    expect((await versions(stage)).map(({ id, source_text }) => [id, source_text === null])).toEqual([
      ['1', false],
      ['1', false],
      ['1', true],
      ['2', false],
    ]);
    const views = await stage.rows(`SELECT * FROM content`);
    expect(HIDDEN.filter((value) => JSON.stringify(views).includes(value))).toEqual([]);
    const rejects = await stage.rows('SELECT body FROM _sync_rejects');
    expect(HIDDEN.filter((value) => JSON.stringify(rejects).includes(value))).toEqual([]);
  });

  it('added to a profile whose rows stand, or under another key, want the tables made anew; descriptions do not', async () => {
    const stage = await open({ fields: {} });
    const hint = 'backfill content --restart';
    for (const fields of [
      { phone: { hash: true } },
      { notes: { exclude: true } },
      { views: { type: 'text' } },
      { title: { rename: 'name' } },
    ]) {
      stage.setProfile({ resources: { content: { history: 'all', fields } } });
      await expect(stage.walk('sync')).rejects.toMatchObject({
        code: 'profile_changed',
        hint: expect.stringContaining(hint),
      });
    }
    stage.setProfile({
      resources: {
        content: {
          history: 'all',
          description: 'A post',
          fields: { title: { description: 'Its head', unit: 'words' } },
        },
      },
    });
    expect(await stage.walk('sync')).toMatchObject({ status: 'ok' });
    const comments = await stage.rows(`SELECT comment FROM _sync_columns WHERE column_name = 'title'`);
    expect(comments).toEqual([{ comment: 'Its head. Unit: words. Field title of the content record.' }]);
    const shown = await stage.rows(
      `SELECT description FROM _sync_view_columns WHERE column_name = 'title' AND view_name = 'content_live'`,
    );
    expect(shown).toEqual([{ description: 'Its head. Unit: words. Field title of the content record.' }]);
    await stage.run('backfill', { restart: true });
  });

  it('want the same key', async () => {
    const stage = await open();
    stage.setSource({ hash_key: 'another-key-0123456789' });
    await expect(stage.walk('sync')).rejects.toMatchObject({ code: 'profile_changed' });
  });

  it('are refused without a key, before any request', async () => {
    const stage = await open({}, [record(1)]);
    const asked = stage.service.asked.length;
    stage.setSource({ hash_key: undefined });
    const { code, stderr } = await stage.command('sync');
    expect([code, stage.service.asked.length]).toEqual([2, asked]);
    expect(stderr).toContain('expected hash_key, a secret such as ${CONTENT_HASH_KEY} (openssl rand -hex 32)');
    expect(stderr).toContain('content.author.email, content.contacts.mail, content.phone');
  });
});
