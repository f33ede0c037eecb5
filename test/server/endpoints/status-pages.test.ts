import { describe, expect, it } from 'vitest';
import { type AccessOptions, createAccessCheck } from '../../../src/server/endpoints/page-access.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { ask, pagesOf } from './page-server.ts';
import { snapshotWith } from './sample-status.ts';

const AUTH = { user: 'ops', password: 'pässword:with colon' };

function get(path: string, options: Parameters<typeof pagesOf>[1] = {}, headers: Record<string, string> = {}) {
  return ask(
    pagesOf(() => snapshotWith(), options),
    path,
    { headers },
  );
}

const serve = { auth: AUTH, host: '127.0.0.1', port: 0, hosts: [] };

/** Asks for a name and a password; nobody waits for long. */
function guarded(changes: Partial<AccessOptions> = {}) {
  return createAccessCheck({ serve, clock: hurriedClock(1_000), onWrongPassword: () => undefined, ...changes });
}

/** Leaves out nobody but those who ask for a name that is not ours. */
function open(hosts: string[] = []) {
  return guarded({ serve: { host: '127.0.0.1', port: 0, hosts } });
}

async function readiness(headers: Record<string, string>): Promise<unknown> {
  const { status, body } = await get('/readyz', { access: guarded() }, headers);
  return [status, JSON.parse(body)];
}

function basic(text: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` };
}

const broken = () => Promise.reject(new Error('secret detail'));

describe('pages', () => {
  it.each([
    ['/', 200, 'text/html; charset=utf-8'],
    ['/status.json', 200, 'application/json; charset=utf-8'],
    ['/metrics', 200, 'text/plain; version=0.0.4; charset=utf-8'],
    ['/readyz', 200, 'application/json; charset=utf-8'],
    ['/favicon.ico', 404, 'text/plain; charset=utf-8'],
    ['/constructor', 404, 'text/plain; charset=utf-8'],
  ])('%s answers %i %s', async (path, status, type) => {
    const answer = await get(path);
    expect([answer.status, answer.headers['content-type']]).toStrictEqual([status, type]);
  });

  it('allows nothing but what the page itself brings, with another nonce each time', async () => {
    const [one, other] = [await get('/'), await get('/')];
    const policy = one.headers['content-security-policy'] ?? '';
    const [, nonce] = /script-src 'nonce-([^']+)'/.exec(policy) ?? [];
    expect(policy).toBe(
      `default-src 'none'; base-uri 'none'; frame-ancestors 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'; connect-src 'self'; img-src data:; form-action 'none'`,
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

  it('F159 says 503 and why where it is not ready, without telling more', async () => {
    const answer = await get('/readyz', {
      ready: async () => ({ ready: false, stopping: false, sources: { blog: 'unreachable' } }),
    });
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body)).toStrictEqual({
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
    ['a wrong password', basic('ops:nope')],
    ['a wrong user', basic(`root:${AUTH.password}`)],
    ['a prefix of it', basic('ops:pässword:with colo')],
    ['junk behind the base64', { authorization: `${basic(`ops:${AUTH.password}`)['authorization']}!!` }],
  ])('refuses %s', async (_, headers: Record<string, string>) => {
    for (const path of ['/', '/status.json', '/metrics']) {
      const answer = await get(path, { access: guarded() }, headers);
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toMatch(/^Basic realm=/);
    }
  });

  it('leaves readiness open, for whoever restarts containers, but names the sources only to those who may see them', async () => {
    const known = { authorization: `Basic ${Buffer.from(`ops:${AUTH.password}`).toString('base64')}` };
    const short = { ready: true, stopping: false };
    expect(await readiness({})).toStrictEqual([200, short]);
    expect(await readiness(basic('ops:nope'))).toStrictEqual([200, short]);
    expect(await readiness(known)).toStrictEqual([200, { ...short, sources: { blog: 'ok' } }]);
  });

  it('keeps those waiting who are wrong, a few at a time; whoever is right never waits', async () => {
    const clock = new HandClock();
    let refused = 0;
    const access = guarded({ clock, onWrongPassword: () => void (refused += 1) });
    const guesses = Array.from({ length: 9 }, () => get('/', { access }, basic('ops:nope')));
    expect((await Promise.race(guesses)).status).toBe(429);
    expect((await get('/', { access }, basic(`ops:${AUTH.password}`))).status).toBe(200);
    expect((await get('/', { access })).status).toBe(401);
    expect(clock.monotonic()).toBe(0);
    await clock.advance(2_000);
    expect((await Promise.all(guesses)).filter(({ status }) => status === 401)).toHaveLength(8);
    expect(refused).toBe(9);
  });
});

describe('a page that everybody may see', () => {
  it.each(['127.0.0.1:8080', '[::1]:8080', 'localhost:8080', '10.1.2.3', 'content-sync:8080', 'Status.Internal', ''])(
    'is given to who asks for it at "%s"',
    async (host) => {
      expect((await get('/', { access: open() }, { host })).status).toBe(200);
    },
  );

  it.each(['rebound.example.com', 'rebound.example.com:8080', '127.0.0.1.example.com', 'example.com.'])(
    'is not given to a browser that was led here under the name "%s"',
    async (host) => {
      for (const path of ['/', '/status.json', '/metrics']) {
        const answer = await get(path, { access: open() }, { host });
        expect([answer.status, answer.body]).toEqual([421, expect.stringContaining('serve.hosts')]);
      }
      const { body } = await get('/readyz', { access: open() }, { host });
      expect(JSON.parse(body)).toStrictEqual({ ready: true, stopping: false });
    },
  );

  it('is given out under the names that are set', async () => {
    const access = open(['status.example.com']);
    expect((await get('/', { access }, { host: 'STATUS.example.com:443' })).status).toBe(200);
    expect((await get('/', { access }, { host: 'example.com' })).status).toBe(421);
  });
});
