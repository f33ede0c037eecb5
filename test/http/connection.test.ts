import { describe, expect, it } from 'vitest';
import { PAGE, clientFor, errorOf, get, json, serve } from './stage.ts';

describe('connections', () => {
  it('keeps its connections for the requests that follow', async () => {
    const opened = new Set<number | undefined>();
    const stage = await serve((request, response) => {
      opened.add(request.socket.remotePort);
      json(response, PAGE);
    });
    const client = clientFor(stage.origin);
    for (let page = 0; page < 10; page += 1) await get(client, `${stage.origin}/v1/content`);
    expect(opened.size).toBeLessThanOrEqual(2);
  });
});

describe('certificates', () => {
  it('https to a port that speaks http stops', async () => {
    const stage = await serve((_request, response) => json(response, PAGE));
    const origin = stage.origin.replace('http:', 'https:');
    expect((await errorOf(get(clientFor(origin), `${origin}/v1/content`))).code).toBe('tls');
  });
});
