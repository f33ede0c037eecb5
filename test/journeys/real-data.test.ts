import { symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { hasBlog } from '../support/corpora.ts';
import { DATABASES } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { IS_LONG, sampled } from '../support/length.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

/** A real blog with its images' facts and a made-up series of analytics. */
const BLOG = fileURLToPath(new URL('../../../shared/data/blog', import.meta.url));
const RATE_HEADERS = ['ietf', 'legacy', 'github', 'none'] as const;
/** The long series of analytics takes a while to read: only the long form has it. */
const RECORDS = { content: 508, images: 676, ...(IS_LONG ? { analytics: 30_480 } : {}) };

/** Every page style, sorted and not in turn, as are the forms of rate headers. */
const STYLES = (['cursor', 'page', 'offset', 'link', 'next-url', 'cursor'] as const).map((pagination, at) => ({
  pagination,
  sort: at % 2 === 0 ? ('updated' as const) : ('none' as const),
  rateHeaders: RATE_HEADERS[at % RATE_HEADERS.length] ?? 'ietf',
}));

const CASES = sampled(STYLES, 3).flatMap((style, at) =>
  DATABASES.filter((_, nth) => IS_LONG || nth === at % DATABASES.length).map((database) => ({ style, database })),
);

describe.skipIf(!hasBlog())('a real blog', () => {
  it.each(CASES)(
    'is copied with $style.pagination pages, sort $style.sort and $style.rateHeaders rate headers to $database.name',
    async ({ database, style }) => {
      const resources = Object.keys(RECORDS);
      const data = tempFolder();
      for (const file of resources.map((name) => `${name}.ndjson`))
        symlinkSync(path.join(BLOG, file), path.join(data, file));
      const stage = await journey({
        database,
        base: style.pagination === 'cursor' ? 'content-service' : `content-service-${style.pagination}`,
        sandbox: { ...style, data, rate: 400, burst: 400 },
        // Pages of 97 records end in the middle of ties; the long series goes in large ones, to be quick.
        profile: { resources: { content: { page: { size: 97 } }, analytics: { page: { size: 1_000 } } } },
      });
      expect(await stage.run('backfill', { resources })).toMatchObject({
        status: 'ok',
        resources: Object.values(RECORDS).map((inserted) => ({ inserted })),
      });
      expect(await stage.read((db) => differences(db, stage.sandbox.store, { resources }))).toEqual([]);
    },
  );
});
