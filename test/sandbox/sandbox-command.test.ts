import { PassThrough } from 'node:stream';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { sandboxCommand } from '../../src/cli/sandbox.ts';
import { SANDBOX_OPTIONS } from '../../src/sandbox/sandbox-options.ts';
import { bodyOf, sandboxFor } from './service-client.ts';

function command(stop = new AbortController()) {
  const stdout = new PassThrough();
  const run = (...flags: string[]) =>
    sandboxCommand({ signal: stop.signal, stdout }).parseAsync(flags, { from: 'user' });
  return { stdout, stop, run };
}

describe('content-sync sandbox', () => {
  it('prints one JSON line once it listens, serves, and ends with the signal', async () => {
    const { stdout, stop, run } = command();
    const flags = ['--generate', 'content=120,pages=3', '--api-key', 'k', '--pagination', 'offset', '--no-total'];
    const running = run(...flags, '--fault', 'status:503,resource=pages', '--fault', 'header,header.x-a=1');
    const line = String((await once(stdout, 'data'))[0]);
    expect(line.endsWith('}\n')).toBe(true);
    const { url, api_key } = JSON.parse(line);
    expect(api_key).toBe('k');
    const headers = { authorization: 'Bearer k' };
    const answer = await fetch(`${url}/v1/content?offset=100`, { headers });
    const body: { data: unknown[] } = await bodyOf(answer);
    expect([answer.headers.get('x-a'), body.data.length, Object.keys(body)]).toEqual(['1', 20, ['data']]);
    expect((await fetch(`${url}/v1/pages`, { headers })).status).toBe(503);
    stop.abort();
    await running;
    await expect(fetch(url)).rejects.toThrow('fetch failed');
  });

  it('serves a sample where it is told nothing', async () => {
    const { stdout, stop, run } = command();
    const running = run();
    const { url, api_key } = JSON.parse(String((await once(stdout, 'data'))[0]));
    const answer = await fetch(`${url}/v1/content`, { headers: { authorization: `Bearer ${api_key}` } });
    expect(await answer.json()).toMatchObject({ total: 1_000 });
    stop.abort();
    await running;
  });

  it.for([
    ['--port', '70000'],
    ['--pagination', 'pages'],
    ['--rate', '0'],
    ['--latency', 'soon'],
    ['--generate', 'content'],
    ['--fault', 'nonsense'],
    ['--data', '/there/is/no/such/folder'],
  ])('refuses %s %s before it listens', async (flags) => {
    const { run } = command();
    await expect(run(...flags)).rejects.toMatchObject({ name: 'ConfigError', message: expect.any(String) });
  });

  it('says so where the port is taken', async () => {
    const { port } = new URL((await sandboxFor()).url);
    await expect(command().run('--port', port)).rejects.toThrow(
      /Cannot listen on 127\.0\.0\.1:\d+: the port is in use/,
    );
  });

  it('has a flag with a description for every setting', () => {
    for (const [name, { flag, about }] of Object.entries(SANDBOX_OPTIONS)) {
      const camel = flag
        .replace(/^--(no-)?/, '')
        .replace(/ .*/, '')
        .replaceAll(/-(.)/g, (_all, letter: string) => letter.toUpperCase());
      expect([camel, about !== '']).toEqual([name, true]);
    }
  });
});
