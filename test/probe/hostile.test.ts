import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { interpolate } from '../../src/config/file/interpolate.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { type ProbeOptions, type ProbeResult, probeService } from '../../src/probe/probe-service.ts';
import { toYaml } from '../../src/probe/profile.ts';
import { type Responder, startListing } from '../pagination/listing-server.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const record = (id: number): object => ({
  id,
  title: `t${id}`,
  updated_at: new Date(1.7e12 + id * 60_000).toISOString(),
});
const some = (from: number, count: number): object[] => Array.from({ length: count }, (_, at) => record(from + at));
const posts =
  (answer: (query: URLSearchParams) => object): Responder =>
  (url) =>
    url.pathname === '/posts'
      ? { headers: JSON_TYPE, body: answer(url.searchParams) }
      : { status: 404, headers: JSON_TYPE, body: { error: 'none' } };

/** Services of which a profile can be made, with a word that its remarks must have. */
const POOR: Record<string, { respond: Responder; word: RegExp }> = {
  'an empty collection': { respond: posts(() => ({ data: [], total: 0 })), word: /not proved: the listing is empty/ },
  'one record': { respond: posts(() => ({ data: some(1, 1) })), word: /style: single/ },
  'a listing without an end': {
    respond: posts((query) => {
      const [size, page] = [Number(query.get('limit') ?? 10), Number(query.get('page') ?? 1)];
      return { data: some((page - 1) * size, Math.min(size, 100)) };
    }),
    word: /style: page/,
  },
  'the same page for ever': { respond: posts(() => ({ data: some(1, 10), next_cursor: 'again' })), word: /not proved/ },
  'records without an id': {
    respond: posts(() => ({ data: [{ a: 'x' }, { a: 'x' }, { a: 'y' }] })),
    word: /not proved: no field is there in every record and unique/,
  },
};

/** Probes a service at full speed. */
function probed(url: string, options: Partial<ProbeOptions> = {}): Promise<ProbeResult> {
  return probeService({
    baseUrl: new URL(url),
    credential: null,
    clock: systemClock,
    secrets: [],
    signal: new AbortController().signal,
    ...options,
  });
}

describe('a service that gives little or lies', () => {
  it.each(Object.entries(POOR))('%s: the profile loads, and says what was not proved', async (_, { respond, word }) => {
    const { url, requests } = await startListing(respond);
    const result = await probed(url.href, { paths: ['/posts'] });
    expect(requests.length).toBeLessThanOrEqual(60);
    expect(profileSchema.safeParse(result.fields).success).toBe(true);
    expect(result.isProved).toBe(false);
    expect(toYaml(result)).toMatch(word);
  });

  it('names of the service with placeholders in them stay text in the profile', async () => {
    const { url } = await startListing((asked) => {
      if (asked.pathname !== '/posts') return { status: 404, headers: JSON_TYPE, body: { error: 'none' } };
      const query = (name: string, usual: number): number => Number(asked.searchParams.get(name) ?? usual);
      const [size, page] = [query('limit', 10), query('page', 1)];
      const data = some(0, 23).slice((page - 1) * size, page * size);
      if (data.length > 0) return { headers: JSON_TYPE, body: { data, page, total: 23 } };
      return { status: 400, headers: JSON_TYPE, body: { code: '${HOME} ${file:/etc/passwd}' } };
    });
    const result = await probed(url.href, { paths: ['/posts'] });
    expect(JSON.stringify(result.fields)).toContain('${');
    const asked: string[] = [];
    const env = new Proxy({}, { get: (_, name) => asked.push(String(name)).toString() });
    const { value, findings } = interpolate(parse(toYaml(result)), {
      env,
      readSecret: (path) => asked.push(path).toString(),
    });
    expect({ value, findings, asked }).toEqual({ value: result.fields, findings: [], asked: [] });
  });

  const NOTHING: Record<string, Responder> = {
    'web pages': () => ({ headers: { 'content-type': 'text/html' }, body: '<html><body>Log in</body></html>' }),
    failures: () => ({ status: 500, headers: JSON_TYPE, body: { error: 'broken' } }),
    'a redirect to somewhere else': () => ({ status: 302, headers: { location: 'https://elsewhere.example/posts' } }),
    'a redirect in a circle': (url) => ({ status: 302, headers: { location: url.pathname } }),
    'half an answer': () => ({ headers: JSON_TYPE, body: '{"data":[{"id":1},' }),
    nothing: () => ({ headers: JSON_TYPE, body: '' }),
    'a text': () => ({ headers: JSON_TYPE, body: '"posts"' }),
  };
  it.each(Object.entries(NOTHING))('%s: told, and soon', async (_, respond) => {
    const { url, requests } = await startListing(respond);
    await expect(probed(url.href, { paths: ['/posts'] })).rejects.toMatchObject({ code: 'probe_failed' });
    expect(requests.length).toBeLessThanOrEqual(12);
  });

  it('says that it is asked too often: the named wait is kept, and counts as a request', async () => {
    const times: number[] = [];
    let limited = 0;
    const { url, requests } = await startListing((asked, count) => {
      times.push(Date.now());
      if (count % 8 !== 0) return posts(() => ({ data: some(1, 5), total: 5 }))(asked, count);
      limited += 1;
      return { status: 429, headers: { 'retry-after': '1' } };
    });
    const result = await probed(url.href, { paths: ['/posts'] });
    expect(requests.length).toBe(result.requests);
    expect(result.requests).toBeLessThanOrEqual(60);
    expect(limited).toBeGreaterThan(0);
    const [at = 0, next = 0] = times.slice(7, 9);
    expect(next - at).toBeGreaterThanOrEqual(990);
  });

  it('asks for a long wait: the probe ends with it', async () => {
    const { url } = await startListing(() => ({ status: 429, headers: { 'retry-after': '3600' } }));
    await expect(probed(url.href, { paths: ['/posts'] })).rejects.toMatchObject({ code: 'deferred' });
  });

  it('lists what follows a key: nothing is said of a next page, which no page names', async () => {
    const { url } = await startListing(
      posts((query) => {
        const [size, after] = [Number(query.get('limit') ?? 10), Number(query.get('starting_after') ?? 0)];
        return { data: some(after + 1, Math.max(0, Math.min(size, 40 - after))), has_more: after + size < 40 };
      }),
    );
    const { fields, lost } = await probed(url.href, { paths: ['/posts'] });
    expect(fields).toMatchObject({ resources: { posts: { page: { style: 'keyset', cursor_field: 'id' } } } });
    expect(lost).toEqual([]);
  });

  it('has no ids, and a parameter for the size: no whole record is sent as a key', async () => {
    const { url, requests } = await startListing(
      posts((query) => {
        const count = Math.min(30, Number(query.get('limit') ?? 10));
        return { data: Array.from({ length: count }, () => ({ a: 'x', b: 'y' })) };
      }),
    );
    await probed(url.href, { paths: ['/posts'] });
    expect(requests.filter((asked) => /%7B|\{/i.test(asked))).toEqual([]);
  });

  it('is an OpenSearch: its collections are its indices', async () => {
    const { url, requests } = await startListing(({ pathname }) => {
      const answers: Readonly<Record<string, object>> = {
        '/': { version: { lucene_version: '9.12.1' }, tagline: 'The OpenSearch Project: https://opensearch.org/' },
        '/_cat/indices': [{ index: 'news' }, { index: '.kibana' }],
        '/news/_search': { hits: { hits: some(1, 3).map((_source, at) => ({ _id: String(at), _source })) } },
      };
      const body = answers[pathname];
      return { status: body === undefined ? 404 : 200, headers: JSON_TYPE, body: body ?? { error: 'none' } };
    });
    await probed(url.href);
    expect(requests.some((asked) => asked.startsWith('/news/_search'))).toBe(true);
  });

  it('lists less to strangers, and refuses them what is not there: no missing path becomes the identity', async () => {
    const { url } = await startListing((asked, _, head) => {
      const isKnown = head?.headers.authorization === 'Bearer the-right-key';
      if (asked.pathname === '/posts')
        return { headers: JSON_TYPE, body: { data: some(1, isKnown ? 10 : 5), total: isKnown ? 10 : 5 } };
      return { status: isKnown ? 404 : 401, headers: JSON_TYPE, body: { error: 'none' } };
    });
    const { fields, findings } = await probed(url.href, { paths: ['/posts'], credential: { secret: 'the-right-key' } });
    expect(fields).toMatchObject({ auth: { type: 'bearer' } });
    expect(findings.filter(({ path }) => path[0] === 'identity')).toMatchObject([{ value: null, proved: false }]);
  });

  it('puts the credential into its links and refusals: it is in no line of the profile', async () => {
    const secret = 'secret-of-this-test-51';
    const { url } = await startListing((asked) => {
      if (asked.pathname !== '/posts') return { status: 404, headers: JSON_TYPE, body: { error: `no ${secret}` } };
      if (asked.searchParams.get('api_key') !== secret)
        return { status: 401, headers: JSON_TYPE, body: { error: `not ${secret}` } };
      const [size, from] = [Number(asked.searchParams.get('limit') ?? 10), Number(asked.searchParams.get('from') ?? 0)];
      const next = new URL(asked);
      next.searchParams.set('from', String(from + size));
      return {
        headers: JSON_TYPE,
        body: { data: some(from, Math.min(size, 40 - from)), next: from + size < 40 ? next.href : null },
      };
    });
    const asked: string[] = [];
    const credential = { secret };
    const result = await probed(url.href, {
      paths: ['/posts'],
      credential,
      auth: 'query:api_key',
      progress: (requested) => asked.push(requested),
    });
    expect(toYaml(result)).toContain('style: next-url');
    expect(toYaml(result)).not.toContain(secret);
    expect(asked.join('\n')).not.toContain(secret);
  });

  it('says that the credential was refused, or that one is wanted', async () => {
    const { url } = await startListing(() => ({ status: 401, headers: JSON_TYPE, body: { error: 'who are you?' } }));
    for (const credential of [{ secret: 'no-such-key-1' }, null]) {
      await expect(probed(url.href, { credential })).rejects.toThrow(/every response was 401/);
    }
  });
});
