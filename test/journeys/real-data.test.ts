import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { IS_LONG, sampled } from '../support/length.ts';
import { copyBlog, isHere, STYLES } from './real-blog.ts';

/** In the short form without the long series. */
const CASES = sampled(STYLES, 3).flatMap((style, at) =>
  DATABASES.filter((_, nth) => IS_LONG || nth === at % DATABASES.length).map((database) => ({ style, database })),
);

describe.skipIf(!isHere)('a real blog', () => {
  it.each(CASES)(
    'is copied with $style.pagination pages, sort $style.sort and $style.rateHeaders rate headers to $database.name',
    async ({ database, style }) => {
      await copyBlog(style, { database, isWhole: IS_LONG });
    },
  );
});
