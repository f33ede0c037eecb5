import { describe, it } from 'vitest';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { copyBlog, isHere, keepsText, STYLES } from './real-blog.ts';

describe.skipIf(!isHere)('a real blog', () => {
  it.each(sampled(STYLES, 3))(
    'is copied with $pagination pages, sort $sort and $rateHeaders rate headers',
    async (style) => {
      await copyBlog(style, { isWhole: false });
    },
  );

  // The long series once, and not in the short form: the soak copies it to every database in every style.
  it.each(DATABASES)('keeps every moment and every other value of the source text on $name', async (database) => {
    await keepsText(database, longOrShort(database === SQLITE, false));
  });
});
