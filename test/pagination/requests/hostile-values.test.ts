import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestAt, singleRequest } from '../../../src/pagination/page-styles/listing-request.ts';
import { loadPosition, type PagePosition, storePosition } from '../../../src/pagination/page-styles/page-position.ts';
import { readItem } from '../../../src/pagination/read-item.ts';
import { scanPages } from '../../../src/pagination/scan-pages.ts';
import type { ApiClient } from '../../../src/http/client.ts';
import { newMeter } from '../../../src/http/client.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { pageSchema } from '../../../src/config/profile/page-style.ts';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { realClient } from '../real-client.ts';
import { collect } from '../walking.ts';

const SEED = Number(process.env['SEED'] ?? 20_261_122);
const RUNS = Number(process.env['RUNS'] ?? 80);

/** A request as it came over the wire: nothing of it was read as a URL. */
interface Raw {
  method: string;
  target: string;
  headers: Record<string, string[]>;
  body: string;
}

const seen: Raw[] = [];
let respond: (raw: Raw) => unknown = () => ({ data: [] });
let base = new URL('http://127.0.0.1');

const server = createServer(async (incoming, outgoing) => {
  const headers: Record<string, string[]> = {};
  for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
    (headers[(incoming.rawHeaders[at] ?? '').toLowerCase()] ??= []).push(incoming.rawHeaders[at + 1] ?? '');
  }
  const raw = { method: incoming.method ?? '', target: incoming.url ?? '', headers, body: await text(incoming) };
  seen.push(raw);
  outgoing.writeHead(200).end(JSON.stringify(respond(raw)));
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  base = new URL(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/api`);
});
afterAll(() => server.close());

const HOSTILE = [
  '..',
  '.',
  '/',
  '../../admin',
  '%2e%2e',
  '%2F..',
  '\\..\\',
  '?a=b',
  '#',
  '#{"body:v":1}',
  'a&v=b',
  'a=b;c',
  'a+b c%20d',
  '\r\nX-Evil: 1\r\n\r\n',
  '\n',
  '\0',
  '\t',
  ' a ',
  '//evil.test/',
  '@evil.test',
  ':80',
  '{since}',
  '{cursor}',
  '$&',
  '$1',
  '"}',
  '"],"v":"x',
  '\\"',
  '\u2028',
  '\uFEFF',
  '\u{1F600}',
  '\uD800',
  '',
  '__proto__',
  'header:Host',
  'body:q',
  'null',
  '1e999',
];

/** Texts that try to be more than a value, any characters, and any halves of them. */
const hostile = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.array(fc.nat(0xff_ff), { maxLength: 6 }).map((codes) => String.fromCharCode(...codes)),
);

/** Codes by which a value is refused. */
const REFUSALS: ReadonlySet<string> = new Set([
  'bad_template_value',
  'bad_query_value',
  'pagination_invalid',
  'item_missing',
]);

/** Runs it; what it asked, or null if it refused to. Fails for an error that is none of a value. */
async function asking(work: () => Promise<unknown>): Promise<Raw[] | null> {
  seen.length = 0;
  try {
    await work();
  } catch (error) {
    if (!(error instanceof SyncError) || !REFUSALS.has(error.code)) throw error;
    return seen.length === 0 ? null : seen.slice();
  }
  return seen.slice();
}

/** The query as a server reads it, each name with all of its values. */
function queryOf({ target }: Raw): Record<string, string[]> {
  const params = new URLSearchParams(target.split('?').slice(1).join('?'));
  return Object.fromEntries([...new Set(params.keys())].map((name) => [name, params.getAll(name)]));
}

const segmentsOf = ({ target }: Raw): string[] => (target.split('?')[0] ?? '').split('/').map(decodeURIComponent);

const checked = (property: (value: string) => Promise<void>): Promise<void> =>
  fc.assert(fc.asyncProperty(hostile, property), { seed: SEED, numRuns: RUNS });

/** Sends the one request of these templates. */
const asked = (client: ApiClient, templates: object, value: string) =>
  asking(async () => {
    const parts = {
      target: { baseUrl: base, prefix: '/v1' },
      templates: { path: '/p', query: {}, ...templates },
      values: { value },
    };
    const request = singleRequest(parts);
    await client.get({ ...request, lane: 'backfill', meter: newMeter() });
  });

describe(`a value that a service chose (seed ${SEED})`, () => {
  it.each<[string, object, (raw: Raw) => unknown, (value: string) => unknown]>([
    [
      'one segment of a path',
      { path: '/a/{value}/b', query: { k: 'v' } },
      (raw) => [segmentsOf(raw), queryOf(raw)],
      (value) => [['', 'api', 'v1', 'a', value, 'b'], { k: ['v'] }],
    ],
    [
      'one value of a query',
      { query: { k: 'v', q: 'at:>"{value}" and' } },
      (raw) => [raw.target.split('?')[0], queryOf(raw)],
      (value) => ['/api/v1/p', { k: ['v'], q: [`at:>"${value}" and`] }],
    ],
    [
      'one value of a header',
      { headers: { 'X-Value': '{value}', 'X-Other': 'o' } },
      ({ target, body, headers }) => [target, body, headers['x-value'], headers['x-other'], headers['x-evil']],
      (value) => ['/api/v1/p', '', [value], ['o'], undefined],
    ],
    [
      'one text of a JSON body',
      { method: 'POST', body: { v: ['{value}'], q: { w: 'a{value}' } } },
      ({ method, target, body }) => [method, target, JSON.parse(body)],
      (value) => ['POST', '/api/v1/p', { v: [value], q: { w: `a${value}` } }],
    ],
  ])('is %s', async (_, templates, read, expected) => {
    const connected = realClient(base, pageSchema.parse({ style: 'cursor' }));
    await checked(async (value) => {
      const raw = await asked(connected, templates, value);
      if (raw === null) return;
      expect(raw.map(read)).toEqual([expected(value)]);
    });
  });

  it('is the id of one record that is read alone', async () => {
    const { resources } = profileSchema.parse({
      resources: { content: { path: '/content', page: { style: 'cursor' }, item: '/content/{id}', query: { k: 'v' } } },
    });
    const connected = realClient(base, pageSchema.parse({ style: 'cursor' }));
    const profile = resources['content'];
    if (profile === undefined) throw new Error('the profile has no resource');
    await checked(async (value) => {
      respond = () => ({ id: value });
      const source = {
        client: connected,
        listing: { baseUrl: base, prefix: '' },
        meter: newMeter(),
        signal: new AbortController().signal,
      };
      const raw = await asking(() => readItem({ ...source, profile }, value, 'refetch'));
      if (raw === null) return;
      expect(raw.map(segmentsOf)).toEqual([['', 'api', 'content', value]]);
      expect(raw.map(queryOf)).toEqual([{ k: ['v'] }]);
    });
  });
});

interface CursorCase {
  fields: object;
  param: string | null;
  /** The cursor of a request, as a server reads it; undefined for a first one. */
  read: (raw: Raw) => unknown;
  /** All but the cursor. */
  rest: (raw: Raw) => unknown;
}

const bodyIn = ({ body }: Raw): { page: { c?: unknown } } => JSON.parse(body);

const CURSORS: Readonly<Record<string, CursorCase>> = {
  'a query': {
    fields: {},
    param: 'c',
    read: (raw) => queryOf(raw)['c']?.join('|'),
    rest: (raw) => [raw.target.split('?')[0], Object.keys(queryOf(raw)).filter((name) => name !== 'c')],
  },
  'a header': {
    fields: {},
    param: 'header:X-C',
    read: ({ headers }) => headers['x-c']?.join('|'),
    rest: ({ target, headers }) => [target, headers['x-evil'], headers['host']],
  },
  'a body': {
    fields: { method: 'POST', body: { page: { n: 1 }, q: 'x' } },
    param: 'body:page.c',
    read: (raw) => bodyIn(raw).page.c,
    rest: (raw) => [raw.target, { ...bodyIn(raw), page: null }],
  },
  'a path': {
    fields: { path: '/from/{cursor}/on' },
    param: null,
    read: (raw) => segmentsOf(raw)[4],
    rest: (raw) => [segmentsOf(raw).with(4, ''), Object.keys(queryOf(raw))],
  },
};

describe.each(Object.entries(CURSORS))(`a cursor in %s (seed ${SEED})`, (_, { fields, param, read, rest }) => {
  it('is the one that the service gave, over a stored position too, and changes nothing else', async () => {
    const page = pageSchema.parse({ style: 'cursor', cursor_param: param, first_cursor: 'first' });
    const client = realClient(base, page, 'data', fields);
    const templates = { path: '/p', query: {}, ...fields };
    const parts = { target: { baseUrl: base, prefix: '/v1' }, templates, values: {} };
    await checked(async (value) => {
      respond = (raw) => ({ data: [{ id: seen.length }], next_cursor: read(raw) === 'first' ? value : null });
      const positions: PagePosition[] = [];
      const raw = await asking(async () => {
        const options = {
          client,
          listing: parts.target,
          lane: 'backfill',
          meter: newMeter(),
          runAhead: 0,
          clock: systemClock,
        } as const;
        const resource = { ...templates, records: 'data', page, id: 'id' };
        for await (const { position } of scanPages({ ...options, resource })) positions.push(position);
      });
      const [first, ...others] = raw ?? [];
      expect(first).toBeDefined();
      if (first === undefined || others.length === 0 || value === 'first') return;
      expect(others.map(read)).toEqual([value]);
      expect(others.map(rest)).toEqual([rest(first)]);
      // What stands in a checkpoint is the same request.
      const stored = storePosition(positions.at(-1) ?? { url: '' }, {}, (text) => text) ?? '';
      const again = requestAt(parts, loadPosition(stored, {}, {}));
      await client.get({ ...again, lane: 'backfill', meter: newMeter() });
      expect(read(seen.at(-1) ?? first)).toBe(value);
    });
  });
});

it(`a link leads to its own path and query, and to nothing in headers or body (seed ${SEED})`, async () => {
  const page = pageSchema.parse({ style: 'next-url', size_param: 'body:size' });
  const fields = { method: 'POST', body: { q: 'x' } } as const;
  const client = realClient(base, page, 'data', fields);
  await checked(async (value) => {
    const link = `/api/v1/p?from=${encodeURIComponent(value.toWellFormed())}#${encodeURIComponent('{"body:q":"evil","header:X-Evil":"1"}')}`;
    respond = ({ target }) => ({ data: [{ id: seen.length }], next: target.includes('from=') ? null : link });
    seen.length = 0;
    const options = {
      client,
      listing: { baseUrl: base, prefix: '/v1' },
      lane: 'backfill',
      meter: newMeter(),
      runAhead: 0,
      clock: systemClock,
    } as const;
    const resource = { path: '/p', query: {}, ...fields, records: 'data', page, id: 'id' };
    const { error } = await collect(scanPages({ ...options, resource }));
    const isRefused = error instanceof SyncError && error.code === 'bad_query_value';
    expect(seen.slice(1).map(queryOf)).toEqual(isRefused ? [] : [{ from: [value.toWellFormed()] }]);
    expect(seen.map(({ body }): unknown => JSON.parse(body))).toEqual(seen.map(() => ({ q: 'x', size: 100 })));
    expect(seen.every(({ headers }) => headers['x-evil'] === undefined)).toBe(true);
  });
});
