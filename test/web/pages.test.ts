import { describe, expect, it } from 'vitest';
import { pagesOf } from './page-server.ts';
import { snapshotWith } from './sample-status.ts';

const AUTH = { user: 'ops', password: 'pässword:with colon' };

function get(path: string, options: Parameters<typeof pagesOf>[1] = {}, headers: Record<string, string> = {}) {
  return pagesOf(() => snapshotWith(), options)({ method: 'GET', path, headers });
}

function basic(text: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` };
}

const broken = () => Promise.reject(new Error('secret detail'));

describe('pages', () => {
  it.each([
    ['/', 200, 'text/html; charset=utf-8'],
    ['/?x=1', 200, 'text/html; charset=utf-8'],
    ['/status.json', 200, 'application/json; charset=utf-8'],
    ['/metrics', 200, 'text/plain; version=0.0.4; charset=utf-8'],
    ['/readyz', 200, 'application/json; charset=utf-8'],
    ['/favicon.ico', 404, 'text/plain; charset=utf-8'],
    ['/constructor', 404, 'text/plain; charset=utf-8'],
    ['//', 404, 'text/plain; charset=utf-8'],
  ])('%s answers %i %s', async (path, status, type) => {
    const answer = await get(path);
    expect([answer.status, answer.headers['content-type']]).toStrictEqual([status, type]);
  });

  it('allows nothing but what the page itself brings, with another nonce each time', async () => {
    const [one, other] = [await get('/'), await get('/')];
    const policy = one.headers['content-security-policy'] ?? '';
    const [, nonce] = /script-src 'nonce-([^']+)'/.exec(policy) ?? [];
    expect(policy).toBe(
      `default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'; connect-src 'self'; img-src data:`,
    );
    expect(one.body).toContain(`<script nonce="${nonce}">`);
    expect(other.headers['content-security-policy']).not.toBe(policy);
  });

  it.each(['/', '/status.json', '/metrics', '/readyz', '/nothing'])(
    '%s is not cached, sniffed or framed',
    async (path) => {
      expect((await get(path)).headers).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
      });
    },
  );

  it('says as JSON what the page says', async () => {
    const status = JSON.parse(String((await get('/status.json')).body));
    expect(status).toMatchObject({ ...snapshotWith(), summary: { tone: 'fine' }, attention: [] });
  });

  it('has no body for HEAD', async () => {
    const answer = await pagesOf(() => snapshotWith())({ method: 'HEAD', path: '/', headers: {} });
    expect([answer.status, answer.body]).toStrictEqual([200, '']);
  });

  it('F159 says 503 and why where it is not ready, without telling more', async () => {
    const answer = await get('/readyz', {
      ready: async () => ({ ready: false, stopping: false, sources: { blog: 'unreachable' } }),
    });
    expect(answer.status).toBe(503);
    expect(JSON.parse(String(answer.body))).toStrictEqual({
      ready: false,
      stopping: false,
      sources: { blog: 'unreachable' },
    });
  });

  it.each(['/', '/status.json', '/metrics', '/readyz'])(
    '%s answers also when putting it together fails',
    async (path) => {
      const errors: unknown[] = [];
      const options = {
        snapshot: broken,
        ready: broken,
        metrics: broken,
        failed: (error: unknown) => void errors.push(error),
      };
      const answer = await get(path, options);
      expect(answer.status).toBe(path === '/readyz' ? 503 : 500);
      expect(answer.body).not.toContain('secret detail');
      expect(errors).toHaveLength(1);
    },
  );
});

describe('basic authentication', () => {
  it.each([
    ['no header', {}],
    ['another scheme', { authorization: 'Bearer abc' }],
    ['a wrong password', basic('ops:nope')],
    ['a wrong user', basic(`root:${AUTH.password}`)],
    ['an empty credential', { authorization: 'Basic ' }],
    ['a prefix of it', basic('ops:pässword:with colo')],
    ['junk behind the base64', { authorization: `${basic(`ops:${AUTH.password}`)['authorization']}!!` }],
  ])('refuses %s', async (_, headers: Record<string, string>) => {
    for (const path of ['/', '/status.json', '/metrics']) {
      const answer = await get(path, { auth: AUTH }, headers);
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toMatch(/^Basic realm=/);
    }
  });

  it.each(['Basic', 'basic', 'BASIC'])('takes the right one, with the scheme written %s', async (scheme) => {
    const value = Buffer.from(`ops:${AUTH.password}`).toString('base64');
    expect((await get('/', { auth: AUTH }, { authorization: `${scheme} ${value}` })).status).toBe(200);
  });

  it('leaves readiness open, for whoever restarts containers', async () => {
    expect((await get('/readyz', { auth: AUTH })).status).toBe(200);
  });
});
