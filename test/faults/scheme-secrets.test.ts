import { createHmac } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { json, serve } from '../http/stage.ts';
import { journey } from '../support/journey.ts';
import { filesIn, leakFinder } from './canaries.ts';

const PAGES = 4;

interface Scheme {
  auth: Record<string, unknown>;
  secrets: Record<string, unknown>;
  /** Whether a request carries the credential. */
  accepts: (request: IncomingMessage, url: URL) => boolean;
  /** Texts that must be written nowhere. */
  hidden: string[];
}

const PASSWORD = 'canary päss/4711';
const HEX = '0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d';

const SCHEMES: Readonly<Record<string, Scheme>> = {
  'a key in the query': {
    auth: { type: 'api_key', in: 'query', name: 'key' },
    secrets: { type: 'api_key', key: 'canary/key+0815' },
    accepts: (_, url) =>
      url.searchParams.get('key') === 'canary/key+0815' && url.searchParams.getAll('key').length === 1,
    hidden: ['canary/key+0815'],
  },
  'a short key in the query': {
    auth: { type: 'api_key', in: 'query', name: 'k' },
    secrets: { type: 'api_key', key: 'zqx9' },
    accepts: (_, url) => url.searchParams.get('k') === 'zqx9',
    hidden: ['zqx9'],
  },
  'two headers': {
    auth: { type: 'headers', names: ['X-App', 'X-Key'] },
    secrets: { type: 'headers', headers: { 'X-App': 'canary-app-1234', 'X-Key': 'canary-key-1234' } },
    accepts: ({ headers }) => headers['x-app'] === 'canary-app-1234' && headers['x-key'] === 'canary-key-1234',
    hidden: ['canary-app-1234', 'canary-key-1234'],
  },
  'basic authentication': {
    auth: { type: 'basic' },
    secrets: { type: 'basic', username: 'jo', password: PASSWORD },
    accepts: ({ headers }) => headers.authorization === `Basic ${Buffer.from(`jo:${PASSWORD}`).toString('base64')}`,
    hidden: [PASSWORD, Buffer.from(`jo:${PASSWORD}`).toString('base64')],
  },
  'a JWT': {
    auth: { type: 'jwt', key_format: 'id:secret', key_encoding: 'hex', header: { kid: '{key_id}' }, prefix: 'Ghost' },
    secrets: { type: 'jwt', key: `key1:${HEX}` },
    accepts: ({ headers }) => {
      const [, signed = '', signature] = /^Ghost (\S+)\.([^.]+)$/.exec(headers.authorization ?? '') ?? [];
      return signature === createHmac('sha256', Buffer.from(HEX, 'hex')).update(signed).digest('base64url');
    },
    hidden: [HEX],
  },
  'a session': {
    auth: {
      type: 'session',
      login: { path: '/login', body: { user: '{username}', password: '{password}' } },
      token: 'token',
      in: 'cookie',
      name: 'sid',
    },
    secrets: { type: 'session', username: 'jo', password: PASSWORD },
    accepts: ({ headers }) => headers.cookie === 'sid=canary-session-token',
    hidden: [PASSWORD, 'canary-session-token'],
  },
};

/** A listing of several pages by whole links that give back the query, and errors that give back all that was sent. */
async function serveEchoing({ accepts }: Scheme) {
  const told = { failsAt: 0, sent: new Set<string>() };
  const records = Array.from({ length: PAGES * 2 }, (_, at) => ({ id: `r${at}`, title: `No. ${at}` }));

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', `http://${request.headers.host}`);
    if (url.pathname === '/login') return json(response, { token: 'canary-session-token' });
    told.sent.add(request.headers.authorization ?? '');
    const everything = JSON.stringify({ title: 'refused', url: url.href, headers: request.headers });
    if (!accepts(request, url)) return json(response, everything, 401);
    const [, id] = /^\/v1\/report\/(.+)$/.exec(url.pathname) ?? [];
    if (id !== undefined) return json(response, records.find((record) => record.id === id) ?? {}, 200);
    const page = Number(url.searchParams.get('page') ?? 1);
    if (page === told.failsAt) return json(response, everything, 500, { 'x-request-id': url.search });
    const next = new URL(url);
    next.searchParams.set('page', String(page + 1));
    const data = records.slice((page - 1) * 2, page * 2);
    json(response, { data, next: page < PAGES ? next.href : null });
  }
  return { ...(await serve(answer)), told, records };
}

describe.each(Object.entries(SCHEMES))('%s', (_, scheme) => {
  it('is proved by check, copies all, resumes, and is written nowhere though the service gives it back', async () => {
    const service = await serveEchoing(scheme);
    const report = {
      path: '/report',
      item: '/report/{id}',
      updated: null,
      page: { style: 'next-url', next_url: 'next', size: 2 },
    };
    const stage = await journey({
      profile: {
        auth: scheme.auth,
        http: { attempts: 1 },
        resources: { content: null, images: null, analytics: null, report },
      },
      source: { base_url: service.origin, auth: scheme.secrets },
    });
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await stage.command(...args, '--log-level', 'trace');
      return { code, text: stdout + stderr };
    };
    const checked = await run('check');
    expect([checked.code, checked.text]).toEqual([0, expect.stringMatching(/ok +report credential: without it/)]);
    service.told.failsAt = 3;
    const failed = await run('backfill');
    expect(failed.code).not.toBe(0);
    service.told.failsAt = 0;
    const asked = service.seen.length;
    const resumed = await run('backfill');
    expect(resumed.code).toBe(0);
    const pages = service.seen.slice(asked).filter(({ url }) => /report(?:\?|$)/.test(url));
    expect(pages.some(({ url }) => url.includes('page=3'))).toBe(true);
    const copied = await stage.column('SELECT id FROM report ORDER BY id');
    expect(copied).toEqual(service.records.map(({ id }) => id));
    const said = [checked.text, failed.text, resumed.text].join('\n');
    expect(said).toMatch(/"msg":"request"/);
    const jwts = [...service.told.sent].flatMap((sent) => /^Ghost (.+)$/.exec(sent)?.[1] ?? []);
    const find = leakFinder(Object.fromEntries([...scheme.hidden, ...jwts].map((secret) => [secret, secret])));
    const files = filesIn(stage.folder, (file) => ['content-sync.yaml', 'profile.yaml'].includes(file));
    const written = [['output', Buffer.from(said).toString('latin1')] as const, ...files];
    // Few digits of base64 may be those of something else.
    const told = written.flatMap(([where, text]) => find(where, text));
    expect(told.filter(({ secret, form }) => secret.length > 8 || form !== 'in base64')).toEqual([]);
  }, 60_000);
});
