import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const EITHER = eitherDatabase(import.meta.filename);

const RECORDS = { content: 60, images: 10, analytics: 60 };

describe.for(EITHER)('relations and fields in check on $name', { timeout: 60_000 }, (database) => {
  it('tells nothing of relations before a first run, then how many of their references lead nowhere', async () => {
    const stage = await journey({
      database,
      sandbox: { generate: RECORDS },
      profile: {
        relations: {
          'content_tags.value': 'content.id',
          'analytics.views': 'images.mime_type',
          'menus.id': 'content.id',
          'content_image_ids.value': null,
        },
      },
    });
    const before = await stage.command('check');
    expect([before.code, before.stderr]).toEqual([0, '']);
    expect(before.stdout).not.toContain('relation');

    await stage.run('backfill');
    const { n: references } = await stage.read(
      (db) => db.prepare<[], { n: number }>('SELECT count(*) AS n FROM analytics').get() ?? { n: 0 },
    );
    const whole = await stage.command('check');
    expect(whole.stdout).toContain(
      `  ok    copy relation: analytics.content_id → content.id: all ${references} references lead to a record`,
    );
    expect(whole.stdout).not.toContain('content_image_ids.value →');
    expect(whole.stdout).toMatch(
      /warn {2}copy relation: content_tags\.value → content\.id: (\d+) of \1 references lead to no live record, such as \w/,
    );
    expect(whole.stdout).toContain(
      "copy relation: analytics.views → images.mime_type is left out: images.mime_type is not the key of a resource's own table",
    );
    expect(whole.stdout).toContain('copy relation: menus.id → content.id is left out: there is no table menus yet');

    const [lost = ''] = await stage.read((db) =>
      db.prepare<[], string>('SELECT content_id FROM analytics ORDER BY content_id LIMIT 1').pluck().all(),
    );
    await stage.write('UPDATE content SET _deleted_at = _synced_at WHERE id = ?', lost);
    const dangling = await stage.read(
      (db) =>
        db.prepare<[string], { n: number }>('SELECT count(*) AS n FROM analytics WHERE content_id = ?').get(lost) ?? {
          n: 0,
        },
    );
    const after = await stage.command('check');
    expect(after.code).toBe(0);
    expect(after.stdout).toContain(`${dangling.n} of ${references} references lead to no live record, such as ${lost}`);
  });
});

it('check tells of fields and states that no record has, hidden ones too', async () => {
  const fields = {
    title: { description: 'x' },
    body: { exclude: true },
    'authors.handle': { hash: true },
    'author.mail': { hash: true },
    wordcount: { unit: 'words' },
  };
  const stage = await journey({
    sandbox: { generate: RECORDS },
    profile: {
      resources: {
        content: { fields },
        images: { state: 'status' },
        analytics: { state: { field: 'views', published: [-1] } },
      },
    },
    source: { hash_key: 'a-key-of-the-source' },
  });
  const { code, stdout } = await stage.command('check');
  expect(code).toBe(0);
  const told = stdout.split('\n').filter((line) => / (fields|state): /.test(line));
  expect(told).toEqual([
    '  warn  content fields: fields names author.mail, which no record on the page has',
    '  warn  content fields: fields names wordcount, which no record on the page has',
    expect.stringMatching(/^ {2}ok {4}content state: \d+ of 60 records on the page are published, by status$/),
    '  warn  images state: no record on the page has the field status',
    expect.stringMatching(
      /^ {2}warn {2}analytics state: 0 of 60 records on the page are published, by views, which is \d/,
    ),
  ]);
  expect(stdout).toContain('under another name it is copied as it is');
});
