import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnName, tableName } from '../../../src/rows/columns/column-name.ts';

const NONE: ReadonlySet<string> = new Set();

/** Names for all paths, each knowing the names before it. */
function namesOf(paths: readonly string[][]): string[] {
  const taken = new Set<string>();
  for (const path of paths) taken.add(columnName(path, taken));
  return [...taken];
}

describe('columnName', () => {
  it.each([
    [['updated_at'], 'updated_at'],
    [['readingMinutes'], 'reading_minutes'],
    [['HTMLBody'], 'html_body'],
    [['ID'], 'id'],
    [['imageIDs'], 'image_ids'],
    [['image2Url'], 'image2_url'],
    [['seo', 'image', 'id'], 'seo_image_id'],
    [['Content-Type'], 'content_type'],
    [['Reading time (min)'], 'reading_time_min'],
    [['__typename'], 'typename'],
    [['_version'], 'version'],
    [['_sync_runs'], 'sync_runs'],
    [['größe'], 'größe'],
    [['e\u0301'], 'é'],
    [['名前'], '名前'],
    [['हिन्दी'], 'हिन्दी'],
    [['a.b'], 'a_b'],
    [['x as y'], 'x_as_y'],
    [['"; DROP TABLE x;--'], 'drop_table_x'],
    [['order'], 'order_'],
    [['xmin'], 'xmin_'],
    [['date'], 'date'],
    [['position'], 'position'],
  ])('F108 F114 T16 names the field %j %s', (path, name) => {
    expect(columnName(path, NONE)).toBe(name);
  });

  it('F108 names what has no letter by its hash, always the same', () => {
    expect(columnName([''], NONE)).toMatch(/^field_[0-9a-f]{8}$/);
    expect(columnName(['🙂'], NONE)).toBe(columnName(['🙂'], NONE));
    expect(columnName(['🙂'], NONE)).not.toBe(columnName(['🙃'], NONE));
  });

  it('F112 gives ID, id and Id three names that differ without case', () => {
    const names = namesOf([['ID'], ['id'], ['Id']]);
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(3);
    expect(names[0]).toBe('id');
  });

  it('F110 keeps two names apart that are alike for 63 characters, within 63 bytes', () => {
    const names = namesOf([[`${'n'.repeat(79)}a`], [`${'n'.repeat(79)}b`], ['é'.repeat(80)], ['🙂a'.repeat(80)]]);
    expect(names).toHaveLength(4);
    for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
  });

  it('keeps a nested field apart from one that spells the same', () => {
    expect(new Set(namesOf([['a', 'b'], ['a_b'], ['a.b'], ['aB']])).size).toBe(4);
  });

  it('finds a name even where the hashed one is taken', () => {
    const taken = new Set(['a']);
    taken.add(columnName(['a'], taken));
    expect(taken.has(columnName(['a'], taken))).toBe(false);
  });

  it('F109 T15 is injective, well-formed and stable for any keys', () => {
    const key = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('a', 'A', 'a_', 'é', 'e\u0301', '_a', 'İ', 'ſ'),
    );
    fc.assert(
      fc.property(fc.uniqueArray(fc.array(key, { minLength: 1, maxLength: 3 }), { selector: String }), (paths) => {
        const names = namesOf(paths);
        expect(names).toHaveLength(paths.length);
        expect(namesOf(paths)).toEqual(names);
        for (const name of names) expect(name).toMatch(/^[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}_]*$/u);
      }),
    );
  });
});

describe('tableName', () => {
  it.each([
    ['content', ['tags'], 'content_tags'],
    ['content', ['seo', 'imageIDs'], 'content_seo_image_ids'],
    ['content_authors', ['roles'], 'content_authors_roles'],
  ])('names the array of %s at %j %s', (parent, path, name) => {
    expect(tableName(parent, path, NONE)).toBe(name);
  });

  it('keeps off names in use, long and empty ones', () => {
    expect(tableName('content', ['live'], new Set(['content_live']))).toMatch(/^content_live_[0-9a-f]{8}$/);
    expect(tableName('content', ['🙂'], NONE)).toMatch(/^content_list_[0-9a-f]{8}$/);
    expect(Buffer.byteLength(tableName('c'.repeat(41), ['x'.repeat(60)], NONE))).toBe(63);
  });
});
