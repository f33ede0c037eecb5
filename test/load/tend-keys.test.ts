import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES, POSTGRES, SQLITE, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { asOther } from '../support/temp-warehouse.ts';

const RELATIONS = {
  'analytics.content_id': 'content.id',
  'content.seo_image_id': 'images.id',
  'content_image_ids.value': 'images.id',
};

const onBoth = DATABASES.map((database) => ({ name: database.name, database }));

async function blog(database: TestDatabase, profile: Record<string, unknown> = { relations: RELATIONS }) {
  const stage = await journey({
    database,
    profile,
    sandbox: { generate: { content: 40, images: 30, analytics: 120 } },
  });
  stage.sandbox.store.put('content', { ...FULL, image_ids: ['img_1', 'img_2'] });
  await walkAll(stage);
  return stage;
}

/** One by one, so that the same resource is always the first to be there. */
async function walkAll(stage: Journey, command: 'backfill' | 'sync' = 'backfill', restart = false): Promise<void> {
  for (const resource of ['images', 'analytics', 'content']) {
    const { resources } = await stage.run(command, { resources: [resource], restart });
    expect(resources.map(({ error }) => error)).toEqual([undefined]);
  }
}

const FULL = { id: 'full', updated_at: '2030-01-01T00:00:00Z' };

async function indexesOf(stage: Journey, database: TestDatabase): Promise<string[]> {
  if (database === SQLITE) {
    return asOther(stage.file, (db) =>
      db
        .prepare<[], string>("SELECT sql FROM sqlite_schema WHERE name LIKE '_sync_index_%' ORDER BY name")
        .pluck()
        .all()
        .map((text) => text.replace(/^CREATE INDEX "_sync_index_\S+" ON /, '')),
    );
  }
  const rows = await rowsOf(
    stage.address,
    'SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE \'\\_sync\\_index\\_%\' ORDER BY indexname COLLATE "C"',
  );
  return rows.map(({ indexdef }) => String(indexdef).replace(/^.* ON blog_?\d*\.(\S+) USING btree/, '$1'));
}

describe.for(onBoth)('indexes on $name', ({ database }) => {
  it('are built when the first walk has ended, where they pay, and hold through changes and a restart', async () => {
    const stage = await blog(database);
    const related =
      database === SQLITE
        ? [
            '"analytics" ("content_id", "date", "views", "visitors", "seconds", "updated_at") WHERE "_deleted_at" IS NULL',
            '"content" ("seo_image_id", "word_count", "revision", "reading_minutes", "created_at", "updated_at", "published_at", "reviewed_at", "event_date") WHERE "_deleted_at" IS NULL',
            '"content_image_ids" ("value", "content_id")',
          ]
        : ['analytics (content_id)', 'content (seo_image_id)', 'content_image_ids (value)'];
    const found = await indexesOf(stage, database);
    expect(found).toEqual(expect.arrayContaining(related));
    expect(found.filter((text) => /updated_at|published_at/.test(text)).length).toBeGreaterThan(2);
    expect(found.filter((text) => text.includes('tags'))).toEqual([]);
    await walkAll(stage, 'sync');
    expect(await indexesOf(stage, database)).toEqual(found);

    // That somebody else has dropped come back; those of others stay.
    await stage.write('DROP INDEX "_sync_index_content.updated_at"');
    await stage.write('CREATE INDEX by_title ON content (title)');
    await walkAll(stage, 'sync');
    expect(await indexesOf(stage, database)).toEqual(found);
    await stage.write('DROP INDEX by_title');

    await walkAll(stage, 'backfill', true);
    expect(await indexesOf(stage, database)).toEqual(found);
  });

  it.runIf(database === SQLITE)('are those that the profile names, or none, from the next run on', async () => {
    const stage = await blog(database, { relations: RELATIONS, resources: { content: { indexes: 'none' } } });
    expect((await indexesOf(stage, database)).filter((text) => text.includes('content '))).toEqual([]);
    const indexes = ['published_at', 'content_tags.value', 'nowhere', 'content_tags.nowhere'];
    stage.setProfile({ relations: RELATIONS, resources: { content: { indexes } } });
    await walkAll(stage, 'sync');
    const ofContent = (await indexesOf(stage, database)).filter((text) => /^"?content/.test(text));
    expect(ofContent.map((text) => text.replaceAll('"', ''))).toEqual([
      'content (published_at)',
      'content_tags (value)',
    ]);
  });
});

describe('a table of SQLite', () => {
  it('is read from end to end, and by an index of its changed rows, as soon as the first scan has ended', async () => {
    const stage = await blog(SQLITE);
    const planOf = (query: string): string[] =>
      asOther(stage.file, (db) =>
        db
          .prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${query}`)
          .all()
          .map(({ detail }) => detail),
      );
    expect(planOf('SELECT referrer, sum(views) FROM analytics_live GROUP BY referrer')).toContain('SCAN r');
    const changed = planOf('SELECT rows_altered FROM sync_freshness').filter((step) => step.includes('SEARCH t'));
    expect(changed).toHaveLength(3);
    for (const step of changed) expect(step).toMatch(/COVERING INDEX _sync_changed_/);
  });
});

describe.skipIf(POSTGRES.missing !== null)('references on postgres', () => {
  const PLAN = `SELECT a.attname AS name, c.collname AS collation FROM pg_attribute a JOIN pg_collation c ON c.oid = attcollation
    WHERE attrelid = 'analytics'::regclass AND attname = 'content_id'`;

  it('have the collation of the keys at once, become wider all the same, and views on them show what they showed', async () => {
    const stage = await blog(POSTGRES);
    expect(await rowsOf(stage.address, PLAN)).toEqual([{ name: 'content_id', collation: 'C' }]);
    const shown = "SELECT content_id FROM analytics_live WHERE id < 'e' ORDER BY id";
    const before = await rowsOf(stage.address, shown);
    stage.sandbox.store.put('analytics', { ...FULL, content_id: { nobody: 1 } });
    await walkAll(stage, 'sync');
    expect(await rowsOf(stage.address, shown)).toEqual(before);
  });
});

describe.skipIf(POSTGRES.missing !== null)('a text that is longer than an index of postgres holds', () => {
  it('is copied, and the index is left out', async () => {
    const stage = await blog(POSTGRES);
    const long = randomBytes(9_000).toString('base64');
    stage.sandbox.store.put('analytics', { ...FULL, content_id: long });
    await walkAll(stage, 'sync');
    expect(await rowsOf(stage.address, "SELECT content_id FROM analytics WHERE id = 'full'")).toEqual([
      { content_id: long },
    ]);
    expect(await indexesOf(stage, POSTGRES)).not.toContain('analytics (content_id)');
    expect(await indexesOf(stage, POSTGRES)).toContain('analytics (updated_at)');
  });
});
