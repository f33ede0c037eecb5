import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { dumpCopy } from '../support/dump-copy.ts';
import { journey } from '../support/journey.ts';

describe('what changed since', () => {
  it('writes nothing where nothing has changed', async () => {
    const stage = await journey({ sandbox: { generate: { content: 300, images: 50, analytics: 500 } } });
    expect((await stage.run('backfill')).status).toBe('ok');
    expect(stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    const before = stage.read(dumpCopy);
    expect((await stage.run('backfill')).status).toBe('ok');
    expect(stage.read(dumpCopy)).toEqual(before);
  });
  it('cli', async () => {
    const stage = await journey({ sandbox: { generate: { content: 300, images: 50, analytics: 500 } } });
    const ended = await stage.start('backfill', '--json').ended;
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    stage.write((db) => {
      db.exec(
        `update content set title='x' where rowid<3; delete from content_tags where rowid=7; delete from images where rowid=1; update _sync_versions set body='{}' where rowid=5`,
      );
    });
    console.log(stage.read((db) => differences(db, stage.sandbox.store)));
  });
});
