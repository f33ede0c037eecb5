import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sandboxCommand } from '../../src/cli/demo.ts';

function command() {
  const stop = new AbortController();
  const stdout = new PassThrough();
  const run = (...flags: string[]) =>
    sandboxCommand({ signal: stop.signal, stdout }).parseAsync(flags, { from: 'user' });
  return { stdout, stop, run };
}

/** The line that it prints, and requests with its key. */
async function started(...flags: string[]) {
  const { stdout, stop, run } = command();
  const running = run(...flags);
  onTestFinished(() => stop.abort());
  const line = String((await once(stdout, 'data'))[0]);
  const { url, api_key, client_id, client_secret } = JSON.parse(line);
  const ask = async (path: string, init: RequestInit = {}, key = api_key) => {
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${key}`);
    const response = await fetch(`${url}${path}`, { ...init, headers });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
  };
  return { line, url, api_key, client_id, client_secret, ask, stop, running };
}

describe('content-sync sandbox', () => {
  it('prints one JSON line once it listens, serves, and ends with the signal', async () => {
    const { line, url, api_key, ask, stop, running } = await started('--generate', 'content=120', '--api-key', 'k');
    expect([line.endsWith('}\n'), api_key]).toEqual([true, 'k']);
    const first = await ask('/v1/content?limit=100');
    expect([first.body.data.length, first.body.total]).toEqual([100, 120]);
    const last = await ask(`/v1/content?limit=100&cursor=${first.body.next_cursor}`);
    expect([last.body.data.length, last.body.next_cursor]).toEqual([20, null]);
    expect((await ask('/v1/content', {}, 'another')).status).toBe(401);
    stop.abort();
    await running;
    await expect(fetch(url)).rejects.toThrow('fetch failed');
  });

  it('serves a sample if it is given nothing', async () => {
    const { ask } = await started();
    expect((await ask('/v1/content')).body).toMatchObject({ total: 1_000 });
  });

  it('lets records be created, changed and deleted, and lists what changed since', async () => {
    const { ask } = await started('--generate', 'content=3');
    const before = new Date().toISOString();
    const made = await ask('/v1/content', { method: 'POST', body: '{"id":"a/b","title":"new"}' });
    expect([made.status, made.headers.get('location')]).toEqual([201, '/v1/content/a%2Fb']);
    expect((await ask('/v1/content', { method: 'POST', body: '{"id":"a/b"}' })).status).toBe(409);
    expect((await ask('/v1/content/a%2Fb', { method: 'PATCH', body: '{"title":"newer"}' })).body.title).toBe('newer');
    const changed = await ask(`/v1/content?updated_since=${before}`);
    expect(changed.body).toMatchObject({ total: 1, data: [{ id: 'a/b', title: 'newer' }] });
    expect((await ask('/v1/content/a%2Fb', { method: 'DELETE' })).status).toBe(204);
    expect((await ask('/v1/content/a%2Fb')).status).toBe(404);
    expect((await ask('/v1/content', { method: 'DELETE' })).status).toBe(405);
  });

  it('gives access tokens to its OAuth client', async () => {
    const { ask, client_id, client_secret } = await started();
    const form = (secret: string) => ({
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret: secret }).toString(),
    });
    expect((await ask('/oauth/token', form('wrong'))).status).toBe(401);
    const { body } = await ask('/oauth/token', form(client_secret));
    expect((await ask('/v1/images', {}, body.access_token)).status).toBe(200);
  });

  it('states its limit, and refuses what is over it', async () => {
    const { ask } = await started('--rate', '0.5', '--burst', '2');
    const answers = [await ask('/v1/content'), await ask('/v1/content'), await ask('/v1/content')];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[0]?.headers.get('ratelimit-policy')).toBe('"default";q=1;w=2');
    expect(answers[2]?.headers.get('retry-after')).toBe('2');
  });

  it.for([
    ['--port', '70000'],
    ['--rate', '0'],
    ['--burst', '1.5'],
    ['--generate', 'content'],
    ['--data', '/there/is/no/such/folder'],
  ])('refuses %s %s before it listens', async (flags) => {
    await expect(command().run(...flags)).rejects.toMatchObject({ name: 'ConfigError', message: expect.any(String) });
  });

  it('says so if the port is taken', async () => {
    const { port } = new URL((await started()).url);
    await expect(command().run('--port', port)).rejects.toThrow(
      /Cannot listen on 127\.0\.0\.1:\d+: the port is in use/,
    );
  });
});
