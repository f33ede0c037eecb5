import type { Expected } from './oracle/copy.ts';
import { unusedImages } from './oracle/of-posts.ts';
import { viewsByAuthor } from './oracle/of-views.ts';
import { sum } from './oracle/rows.ts';

/** A query as it is written first, over the tables, for a single figure `n`; and the figure that was meant. */
interface Naive {
  asked: string;
  query: string;
  meant: (expected: Expected) => number;
}

/** Each finds another figure than the one that was meant, and no error says so: what the views are for. */
export const NAIVE: readonly Naive[] = [
  {
    asked: 'how many posts there are',
    query: 'SELECT count(*) AS n FROM content',
    meant: ({ live }) => live.content.size,
  },
  {
    asked: 'how many posts are published',
    query: 'SELECT count(*) AS n FROM content WHERE published_at IS NOT NULL',
    meant: ({ live }) => [...live.content.values()].filter(({ status }) => status === 'published').length,
  },
  {
    asked: 'views by author, added up',
    query: `SELECT sum(a.views) AS n FROM content c JOIN content_authors w ON w.content_id = c.id
      JOIN analytics a ON a.content_id = c.id`,
    meant: (expected) => sum(viewsByAuthor(expected).map(({ views }) => Number(views))),
  },
  {
    asked: 'words per author, added up',
    query: 'SELECT sum(c.word_count) AS n FROM content c JOIN content_authors w ON w.content_id = c.id',
    meant: ({ live }) => sum([...live.content.values()].map(({ word_count }) => word_count)),
  },
  {
    asked: 'how many images nobody uses',
    query: `SELECT count(*) AS n FROM images WHERE id NOT IN (SELECT value FROM content_image_ids)
      AND id NOT IN (SELECT seo_image_id FROM content)`,
    meant: (expected) => unusedImages(expected).length,
  },
];
