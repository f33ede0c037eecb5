import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { PAGINATIONS } from './service/pages/listing-page.ts';
import { IS_LONG } from '../support/length.ts';
import { ask, bodyOf, sandboxFor, walk } from './service-client.ts';

const BLOG = fileURLToPath(new URL('../../../shared/data/blog', import.meta.url));
const FACTS = [
  ['content', 508, 97],
  ['images', 676, 500],
  ['analytics', 30_480, 1_000],
] as const;
const here = existsSync(BLOG);
if (!here) console.warn(`skipped: ${BLOG} is not there`);

function linesOf(resource: string): Set<string> {
  return new Set(readFileSync(`${BLOG}/${resource}.ndjson`, 'utf8').trimEnd().split('\n'));
}

describe.skipIf(!here)('the blog of shared/data', () => {
  // How pages are cut does not depend on the order of the records: one style in no order is enough.
  const sorted = PAGINATIONS.map((pagination) => ({ pagination, sort: 'updated' as const }));
  const cases = [...sorted, { pagination: 'cursor' as const, sort: 'none' as const }];

  it.for(cases)('is served whole and byte for byte by $pagination, sorted by $sort', async ({ pagination, sort }) => {
    const sandbox = await sandboxFor({ data: BLOG, pagination, sort });
    // The short form walks over the other records in one style.
    const walked = FACTS.filter(([resource]) => IS_LONG || resource === 'content' || pagination === 'cursor');
    for (const [resource, count, limit] of walked) {
      const pages = await walk(sandbox, pagination, `/v1/${resource}`, limit);
      const served = [...sandbox.store.list(resource)].map((record) => record.text);
      const lines = linesOf(resource);
      expect([served.length, new Set(served).size, served.every((text) => lines.has(text))]).toEqual([
        count,
        count,
        true,
      ]);
      let [place, whole] = [0, true];
      for (const page of pages) {
        const { data, total }: { data: unknown[]; total: number } = JSON.parse(page);
        const expected = served.slice(place, place + data.length).join(',');
        whole &&= page.startsWith(`{"data":[${expected}]`) && total === count;
        place += data.length;
      }
      expect([resource, place, whole]).toEqual([resource, count, true]);
    }
  });

  it('serves the bytes of the images that have a file, with an ETag', async () => {
    const sandbox = await sandboxFor({ data: BLOG });
    const { sha256 } = JSON.parse(sandbox.store.get('images', 'img_351cc1d591e872cf')?.text ?? '');
    const file = await ask(sandbox, '/v1/images/img_351cc1d591e872cf/file');
    expect([file.status, file.headers.get('content-type'), file.headers.get('etag')]).toEqual([
      200,
      'image/jpeg',
      `"${sha256}"`,
    ]);
    expect((await file.arrayBuffer()).byteLength).toBe(38_093);
    const again = await ask(sandbox, '/v1/images/img_351cc1d591e872cf/file', {
      headers: { 'if-none-match': `"${sha256}"` },
    });
    expect(again.status).toBe(304);
    expect((await ask(sandbox, '/v1/images/img_7a10484d3fec19d4/file')).status).toBe(404);
  });

  it('finds records without updated_at by their date, and leaves them as they are', async () => {
    const sandbox = await sandboxFor({ data: BLOG });
    const answer = await ask(sandbox, '/v1/analytics?updated_since=2024-11-25&limit=1000');
    const { data } = await bodyOf<{ data: { date: string; updated_at?: string }[] }>(answer);
    expect(data.length).toBeGreaterThan(0);
    expect(data.every((row) => row.date >= '2024-11-25' && row.updated_at === undefined)).toBe(true);
  });
});
