import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { copyBlog, isHere, keepsText, STYLES } from './real-blog.ts';

const CASES = STYLES.flatMap((style) => DATABASES.map((database) => ({ ...style, database })));

describe.skipIf(!isHere)('a real blog', () => {
  it.each(CASES)(
    'is copied whole with $pagination pages, sort $sort and $rateHeaders rate headers to $database.name',
    async ({ database, ...style }) => {
      await copyBlog(style, { database });
    },
  );

  it.each(DATABASES)('keeps every moment and every other value of the source text on $name', async (database) => {
    await keepsText(database);
  });
});
