import { describe, expect, it } from 'vitest';
import { initialShape, shapeRecords, type ShapedPage } from '../../src/shape/shape-page.ts';
import { blogLines, hasBlog, naughtyStrings } from '../support/corpora.ts';
import { columnsOf, PROFILE, recordsOf, rowsOf, shapePage, shapePages } from './shaping.ts';

describe('naughty strings', () => {
  it('F101 F102 stand in text cells as they are, all 515', () => {
    const strings = naughtyStrings();
    // A first record that is no date, so that the column is text whatever the order.
    const page = shapePage(['{"id":0,"v":"text"}', ...strings.map((v) => JSON.stringify({ id: 1, v }))]);
    expect(rowsOf(page, 'content').map((row) => row['v'])).toEqual(['text', ...strings]);
    expect(page.repaired).toBe(0);
  });

  it('F109 as field names give each string its own column, the same in every run', () => {
    const strings = [...new Set(naughtyStrings())].filter((text) => text !== 'id');
    const text = JSON.stringify(Object.fromEntries(strings.map((name) => [name, name])));
    const [first, second] = shapePages([[text], [text]], { max_columns: 900 });
    expect(first?.shape.tables[0]?.columns).toHaveLength(strings.length);
    expect(second?.shape).toBe(first?.shape);
    expect(Object.values(rowsOf(second ?? raise(), 'content')[0] ?? {})).toEqual(
      expect.arrayContaining(strings.filter((name) => !/^\d+-/.test(name))),
    );
    expect(columnsOf(shapePages([[text]], { max_columns: 900 })[0]?.shape ?? raise())).toEqual(
      columnsOf(first?.shape ?? raise()),
    );
  });
});

/** Shapes a resource in pages of 100, as a run does. */
function shapeBlog(resource: 'content' | 'images' | 'analytics'): { pages: ShapedPage[]; columns: string[] } {
  const lines = blogLines(resource);
  let shape = initialShape(resource, PROFILE);
  const pages: ShapedPage[] = [];
  for (let from = 0; from < lines.length; from += 100) {
    const page = shapeRecords({ shape, profile: PROFILE, records: recordsOf(...lines.slice(from, from + 100)) });
    ({ shape } = page);
    pages.push(page);
  }
  return { pages, columns: columnsOf(shape) };
}

describe.skipIf(!hasBlog())('the blog', () => {
  it('gives 508 contents, 1,715 tags, 921 authors and 398 image ids', () => {
    const { pages, columns } = shapeBlog('content');
    const count = (table: string): number => pages.reduce((sum, page) => sum + rowsOf(page, table).length, 0);
    expect(['content', 'content_tags', 'content_authors', 'content_image_ids'].map(count)).toEqual([
      508, 1715, 921, 398,
    ]);
    expect(columns).toContain('content.reading_minutes double');
    expect(columns).toContain('content.updated_at timestamp');
    expect(columns).toContain('content.seo_image_id text');
    expect(columns).toContain('content_authors.handle text');
    const words = pages
      .flatMap((page) => rowsOf(page, 'content'))
      .reduce((sum, row) => sum + Number(row['word_count']), 0);
    expect(words).toBe(517_341);
  });

  it('gives 676 images of 164,968,904 bytes', () => {
    const rows = shapeBlog('images').pages.flatMap((page) => rowsOf(page, 'images'));
    expect(rows).toHaveLength(676);
    expect(rows.reduce((sum, row) => sum + Number(row['byte_size']), 0)).toBe(164_968_904);
  });

  it('gives 30,480 days of analytics with 332,447 views, 6,086 of them without a referrer', () => {
    const { pages, columns } = shapeBlog('analytics');
    const rows = pages.flatMap((page) => rowsOf(page, 'analytics'));
    expect(rows).toHaveLength(30_480);
    expect(rows.reduce((sum, row) => sum + Number(row['views']), 0)).toBe(332_447);
    expect(rows.filter((row) => row['referrer'] === null)).toHaveLength(6086);
    expect(columns).toContain('analytics.date date');
  });
});

function raise(): never {
  throw new Error('not there');
}
