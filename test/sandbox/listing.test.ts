import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { SORTS } from '../../src/sandbox/records/base-records.ts';
import { PAGINATIONS } from '../../src/sandbox/pages/listing-page.ts';
import { handClock } from './hand-clock.ts';
import { ask, bodyOf, idsOf, sandboxFor, walk } from './service-client.ts';

interface Page {
  data: { id: string }[];
  next_cursor: string | null;
}

function ids(pages: readonly string[]): string[] {
  return pages.flatMap((page) => idsOf(JSON.parse(page)));
}

describe('a listing', () => {
  const cases = PAGINATIONS.flatMap((pagination) => SORTS.map((sort) => ({ pagination, sort })));

  it.for(cases)('is whole after changes: $pagination, sorted by $sort', async ({ pagination, sort }) => {
    const sandbox = await sandboxFor({ generate: { content: 300 }, pagination, sort });
    for (let n = 0; n < 300; n += 7) sandbox.store.remove('content', `cnt_${String(n).padStart(9, '0')}`);
    for (let n = 0; n < 300; n += 10) {
      const id = `cnt_${String(n).padStart(9, '0')}`;
      sandbox.store.put('content', { id, updated_at: '2020-01-01T00:10:00Z', n });
    }
    for (let n = 0; n < 40; n += 1)
      sandbox.store.put('content', { id: `new_${n}`, updated_at: '2020-01-01T00:10:00Z' });
    const expected = [...sandbox.store.list('content')].map((record) => record.id);
    expect(expected).toHaveLength(sandbox.store.count('content'));
    expect(ids(await walk(sandbox, pagination, '/v1/content', 13))).toEqual(expected);
    const recent = expected.filter((id) => updatedAt(sandbox.store.get('content', id)?.text) >= '2020-01-01T00:10:00');
    expect(recent.length).toBeLessThan(expected.length);
    expect(ids(await walk(sandbox, pagination, '/v1/content?updated_since=2020-01-01T00:10:00Z', 13))).toEqual(recent);
  });

  it.for(SORTS)('F046 a cursor walk (%s) shows every untouched record once while others change', async (sort) => {
    const sandbox = await sandboxFor({ generate: { content: 400 }, sort });
    const seen: string[] = [];
    let [path, turn]: [string | null, number] = ['/v1/content?limit=20', 0];
    while (path !== null) {
      const page: Page = await bodyOf(await ask(sandbox, path));
      seen.push(...idsOf(page));
      path = page.next_cursor === null ? null : `/v1/content?limit=20&cursor=${page.next_cursor}`;
      const changed = `cnt_${String((turn * 37) % 400).padStart(9, '0')}`;
      if (turn % 2 === 0) sandbox.store.remove('content', changed);
      else sandbox.store.put('content', { id: changed, updated_at: '2030-01-01T00:00:00Z' });
      sandbox.store.put('content', { id: `new_${turn}`, updated_at: '2019-01-01T00:00:00Z' });
      turn += 1;
    }
    const touched = new Set(Array.from({ length: turn }, (_, n) => `cnt_${String((n * 37) % 400).padStart(9, '0')}`));
    const untouched = Array.from({ length: 400 }, (_, n) => `cnt_${String(n).padStart(9, '0')}`).filter(
      (id) => !touched.has(id),
    );
    const counts = untouched.map((id) => seen.filter((other) => other === id).length);
    expect(counts.every((count) => count === 1)).toBe(true);
  });

  it('F063 shows a write only after the visibility lag, in its place by updated_at', async () => {
    const clock = handClock();
    const sandbox = await sandboxFor({ clock, generate: { content: 10 }, visibilityLag: 90_000 });
    sandbox.store.put('content', { id: 'late', updated_at: '2020-01-01T00:00:30Z' });
    const list = async () => idsOf(await bodyOf<Page>(await ask(sandbox, '/v1/content')));
    expect(await list()).not.toContain('late');
    expect((await ask(sandbox, '/v1/content/late')).status).toBe(200);
    clock.wind(90_000);
    expect((await list()).indexOf('late')).toBe(2);
  });

  it('updated_since is inclusive and reads ISO, seconds and milliseconds', async () => {
    const sandbox = await sandboxFor({ generate: { content: 10 } });
    for (const since of ['2020-01-01T00:01:20.000Z', '2020-01-01T01:01:20%2B01:00', '1577836880', '1577836880000']) {
      const page = await (await ask(sandbox, `/v1/content?updated_since=${since}`)).json();
      expect(page).toMatchObject({ total: 6, next_cursor: null });
    }
  });

  it('cuts a limit above the maximum, and tells no total where it is told not to', async () => {
    const sandbox = await sandboxFor({ generate: { content: 50 }, maxLimit: 20, total: false });
    const page: Page = await bodyOf(await ask(sandbox, '/v1/content?limit=5000'));
    expect(page.data).toHaveLength(20);
    expect(page).not.toHaveProperty('total');
  });

  it.for(['limit=0', 'limit=x', 'limit=1.5', 'cursor=nonsense', 'cursor=bnVsbA', 'updated_since=yesterday'])(
    'answers 400 to ?%s',
    async (query) => {
      const sandbox = await sandboxFor();
      const answer = await ask(sandbox, `/v1/content?${query}`);
      expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'application/problem+json']);
    },
  );

  it('F092 F099 F104 F090 sends every line as it stands: numbers, duplicate keys, bad ids, invalid bytes', async () => {
    const lines = [
      Buffer.from('{ "id": 12345678901234567890, "n": 1e400, "x": 1.10, "z": -0 }'),
      Buffer.from('{"id":"twice","v":1}'),
      Buffer.from('{"id":"twice","v":2,"v":3,"__proto__":{"polluted":1}}'),
      Buffer.from('{"id":null}'),
      Buffer.from('{"id":{"a":1}}'),
      Buffer.concat([Buffer.from('{"id":"bytes","t":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
    ];
    const folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
    writeFileSync(join(folder, 'pages.ndjson'), Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\r\n')])));
    const sandbox = await sandboxFor({ data: folder });
    const body = Buffer.from(await (await ask(sandbox, '/v1/pages')).arrayBuffer());
    for (const line of lines) expect(body.includes(line)).toBe(true);
    expect(await (await ask(sandbox, '/v1/pages/12345678901234567890')).text()).toBe(String(lines[0]));
    expect(ids(await walk(sandbox, 'cursor', '/v1/pages', 1))).toHaveLength(6);
  });

  it('F061 walks through ties with pages smaller than the tie', async () => {
    const sandbox = await sandboxFor();
    for (let n = 0; n < 25; n += 1) sandbox.store.put('content', { id: `t${n}`, updated_at: '2024-01-01T00:00:00Z' });
    expect(new Set(ids(await walk(sandbox, 'cursor', '/v1/content', 4))).size).toBe(25);
  });

  it('gives generated records that are the same in every run, flat ones without arrays', async () => {
    const [one, two] = [
      await sandboxFor({ generate: { content: 5 } }),
      await sandboxFor({ generate: { content: 5 }, generateFlat: true }),
    ];
    const [text, flat] = [
      one.store.get('content', 'cnt_000000003')?.text ?? '',
      two.store.get('content', 'cnt_000000003')?.text ?? '',
    ];
    expect(JSON.parse(text)).toMatchObject({
      author: { contact: {} },
      tags: [expect.any(String)],
      authors: [{ position: 0 }],
    });
    expect(Object.values(JSON.parse(flat)).some(Array.isArray)).toBe(false);
    for (const each of [text, flat]) expect(Math.abs(Buffer.byteLength(each) - 1_050)).toBeLessThan(150);
  });

  it('packs answers only with gzip on', async () => {
    for (const gzip of [true, false]) {
      const sandbox = await sandboxFor({ generate: { content: 5 }, gzip });
      const headers = { authorization: `Bearer ${sandbox.apiKey}`, 'accept-encoding': 'gzip' };
      const answer = await request(`${sandbox.url}/v1/content`, { headers });
      const bytes = Buffer.from(await answer.body.arrayBuffer());
      expect(answer.headers['content-encoding']).toBe(gzip ? 'gzip' : undefined);
      expect(JSON.parse(String(gzip ? gunzipSync(bytes) : bytes))).toMatchObject({ total: 5 });
    }
  });
});

function updatedAt(text: string | undefined): string {
  return JSON.parse(text ?? '{}').updated_at ?? '';
}
