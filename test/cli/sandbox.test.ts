import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sandboxCommand } from '../../src/cli/sandbox.ts';

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
    await expect(command().run('--port', port)).rejects.toThrow(/Cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
  });
});
