import { describe, expect, it } from 'vitest';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { LIST, faulty } from '../faulty-sandbox.ts';
import { ask, bodyOf, idsOf, walk } from '../service-client.ts';

interface Page {
  data: { id: string; title?: string }[];
  next_cursor: string | null;
  next?: string;
  total: number;
  count?: number;
}

async function page(sandbox: Sandbox, path = LIST): Promise<Page> {
  return bodyOf<Page>(await ask(sandbox, path));
}

describe('pages that lie', () => {
  it('F048 the same cursor again', async () => {
    const sandbox = await faulty({ fault: 'repeated-cursor' });
    const { next_cursor } = await page(sandbox);
    expect((await page(sandbox, `${LIST}&cursor=${next_cursor}`)).next_cursor).toBe(next_cursor);
  });

  it('F049 cursors in a circle', async () => {
    const sandbox = await faulty({ fault: 'cursor-cycle', length: 3 });
    const cursors: (string | null)[] = [];
    for (let turn = 0; turn < 7; turn += 1) {
      const last = cursors.at(-1);
      cursors.push((await page(sandbox, last ? `${LIST}&cursor=${last}` : LIST)).next_cursor);
    }
    expect(new Set(cursors).size).toBe(3);
    expect(cursors.slice(0, 3)).toEqual(cursors.slice(3, 6));
  });

  it.for(['cursor', 'link', 'next-url'] as const)(
    'F050 an empty page in the middle, nothing lost (%s)',
    async (pagination) => {
      const sandbox = await faulty({ fault: 'empty-page', nth: 2, times: 3 }, { pagination });
      const pages: Page[] = (await walk(sandbox, pagination, '/v1/content', 10)).map((text) => JSON.parse(text));
      expect(pages.map(({ data }) => data.length)).toEqual([10, 0, 0, 0, 10, 10, 10, 10]);
      expect(new Set(pages.flatMap(idsOf)).size).toBe(50);
    },
  );

  it('F052 a short page in the middle, nothing lost', async () => {
    const sandbox = await faulty({ fault: 'short-page', page: 2 });
    const pages: Page[] = (await walk(sandbox, 'cursor', '/v1/content', 10)).map((text) => JSON.parse(text));
    expect(pages.map(({ data }) => data.length)).toEqual([10, 9, 10, 10, 10, 1]);
    expect(new Set(pages.flatMap(idsOf)).size).toBe(50);
  });

  it('F053 F054 F056 F058 totals, duplicates, size and count', async () => {
    expect((await page(await faulty({ fault: 'wrong-total', total: '"7"' }))).total).toBe('7');
    const { data } = await page(await faulty({ fault: 'duplicate-ids' }));
    expect([data.length, data[10]?.id, data[10]?.title === data[0]?.title]).toEqual([11, data[0]?.id, false]);
    expect((await page(await faulty({ fault: 'oversize-page', factor: 4 }))).data).toHaveLength(40);
    expect((await page(await faulty({ fault: 'wrong-count' }))).count).toBe(15);
    expect((await page(await faulty({ fault: 'missing-records', count: 2 }))).data).toHaveLength(8);
    const same = await faulty({ fault: 'same-page' }, { pagination: 'page' });
    expect((await page(same, `${LIST}&page=3`)).data).toEqual((await page(same)).data);
  });

  it('F051 has_more and the cursor in any form', async () => {
    expect(await page(await faulty({ fault: 'field', name: 'has_more', value: '"false"' }))).toMatchObject({
      has_more: 'false',
    });
    expect(await page(await faulty({ fault: 'field', name: 'next_cursor', value: '""' }))).toMatchObject({
      next_cursor: '',
    });
  });

  it('F055 F059 next links that lead elsewhere or are written oddly', async () => {
    const away = await faulty({ fault: 'foreign-next', to: '//evil.invalid{path}' }, { pagination: 'next-url' });
    expect((await page(away)).next).toMatch(/^\/\/evil\.invalid\/v1\/content\?limit=10&cursor=/);
    const relative = await faulty({ fault: 'foreign-next', to: '{path}' }, { pagination: 'link' });
    expect((await ask(relative, LIST)).headers.get('link')).toMatch(
      /^<\/v1\/content\?limit=10&cursor=.*>; rel="next"$/,
    );
    const odd = await faulty(
      { fault: 'link-header', value: '</first>; rel="first"\n<{url}>; REL=next' },
      { pagination: 'link' },
    );
    expect((await ask(odd, LIST)).headers.get('link')).toMatch(/^<\/first>; rel="first", <http.*>; REL=next$/);
  });
});
