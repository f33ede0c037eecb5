import { describe, expect, it } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import type { Behaviour, OwnRecord } from '../../support/record-service.ts';
import { ownStage } from '../../support/own-stage.ts';

const RECORDS: OwnRecord[] = Array.from({ length: 20 }, (_, at) => ({
  id: at + 1,
  title: `title ${at}`,
  author: at % 3,
  category: 7,
  tags: [{ name: 'a' }, { name: 'b' }],
  updated_at: '2026-03-01T08:00:00Z',
}));

function changed(id: number, fields: Record<string, unknown> = {}): OwnRecord {
  return { ...RECORDS[id - 1], id, title: 'changed', updated_at: '2026-03-02T08:00:00Z', ...fields };
}

function longer(record: OwnRecord | undefined): OwnRecord | undefined {
  return record && { ...record, title: `${String(record['title'])} and more` };
}

function withBody(record: OwnRecord | undefined): OwnRecord | undefined {
  return record && { ...record, body: 'long' };
}

const OTHERWISE: [string, Behaviour['alone']][] = [
  [
    'with its relations expanded',
    (record) => record && { ...record, author: { id: record['author'] }, category: { id: 7 } },
  ],
  ['with fewer fields', (record) => record && { id: record.id, title: record['title'], updated_at: record.updated_at }],
  ['with a field that is empty there', (record) => record && { ...record, tags: [] }],
  [
    'with a field under another name',
    (record) => record && { id: record.id, name: record['title'], updated_at: record.updated_at },
  ],
  ['with the whole of a text that the listing cuts', longer],
];

describe.for([USUAL])('a record read alone that is not the listed one, on $name', (database) => {
  it.for(OTHERWISE)('%s: the row and the columns are those of the listing, and the run says so', async ([, alone]) => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone } });
    const before = await stage.rows();
    const drained = await stage.listen();
    stage.service.put(changed(3));
    expect(await drained.hear(3)).toEqual(['scanned']);
    const after = await stage.rows();
    expect(after.map((row) => Object.keys(row))).toEqual(before.map((row) => Object.keys(row)));
    expect(after[2]).toMatchObject({ title: 'changed', author: 2, category: 7, _version: 2 });
    expect(await stage.rows('SELECT count(*) AS n FROM content_tags')).toEqual([{ n: 40 }]);
    expect(await stage.rows('SELECT * FROM _sync_schema_changes WHERE from_type IS NOT NULL')).toEqual([]);
    const report = await drained.run('sync');
    expect(report).toMatchObject({ status: 'partial', updated: 0 });
    expect(report.warnings).toMatchObject([{ code: 'item_unproved', hint: expect.stringContaining('accept: [item]') }]);
    // It is not read again and again.
    stage.service.asked.length = 0;
    stage.service.put(changed(4));
    await drained.hear(4);
    expect(stage.service.asked.filter((path) => path.startsWith('/v1/content/'))).toHaveLength(1);
    expect((await stage.rows())[3]).toMatchObject({ title: 'changed', _version: 2 });
  });

  it('with further fields: the rows are those of the listing, and nothing is wrong', async () => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone: withBody } });
    const drained = await stage.listen();
    stage.service.put(changed(3));
    expect(await drained.hear(3)).toEqual(['scanned']);
    const [row] = (await stage.rows()).slice(2);
    expect([row?.['title'], Object.keys(row ?? {}).includes('body')]).toEqual(['changed', false]);
    expect(await drained.run('sync')).toMatchObject({ status: 'ok', updated: 0 });
  });

  it('is taken as it is if the profile accepts that, and every run says so', async () => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone: longer }, content: { accept: ['item'] } });
    const drained = await stage.listen();
    stage.service.put(changed(3));
    expect(await drained.hear(3)).toEqual(['loaded']);
    expect((await stage.rows())[2]).toMatchObject({ title: 'changed and more' });
    const report = await drained.run('sync');
    expect(report.status).toBe('ok');
    expect(report.warnings).toMatchObject([{ code: 'item_unproved', accepted: true }]);
  });

  it('is asked of the listing if it brings a field that no reading has proved yet', async () => {
    const stage = await ownStage(database, RECORDS);
    const drained = await stage.listen();
    stage.service.put(changed(3, { subtitle: 'new' }));
    expect(await drained.hear(3)).toEqual(['loaded']);
    expect((await stage.rows())[2]).toMatchObject({ subtitle: 'new' });
    stage.service.asked.length = 0;
    stage.service.put(changed(4, { subtitle: 'also' }));
    expect(await drained.hear(4)).toEqual(['loaded', 'loaded']);
    // Proved by the one before: nothing is asked but the record.
    expect(stage.service.asked).toEqual(['/v1/content/4']);
    expect(await drained.run('sync')).toMatchObject({ status: 'ok' });
  });
});
