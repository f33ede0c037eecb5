import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { AUTH, serveOauth } from '../http/auth/oauth-service.ts';
import { servingStage, sourceIn, until, type Serving } from '../support/serving.ts';

const NONE = { generate: { content: 0, images: 0, analytics: 0 } };
/** As long as a delivery of a service may well be. */
const BACKSLASHES = '\\'.repeat(40_000);
/** The path of its address is a secret, and begins with what is no letter. */
const PING = 'http://127.0.0.1:9/-/4711-canary/{resource}';

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** What the first runs ended with, one for each resource. */
async function codesOf(serving: Serving): Promise<string[]> {
  let codes: string[] = [];
  await until('told', async () => {
    const { resources } = sourceIn(await serving.status());
    codes = resources.flatMap(({ runs }) => runs.at(-1)?.error?.code ?? []);
    return codes.length === resources.length || resources.map(({ runs }) => runs);
  });
  return codes;
}

describe('a text that nearly is a secret everywhere', { timeout: 120_000 }, () => {
  it('keeps no receiver from the deliveries of other sources when it comes in a signed delivery', async () => {
    const sources = { loud: { ping: { success: PING } }, blog: {} };
    const stage = await servingStage({ sandbox: NONE, sources });
    const serving = await stage.serve();
    const loud = serving.deliver({ id: 'loud', source: 'loud', body: `{"type":"x","text":"${BACKSLASHES}"}` });
    expect(await serving.deliver({ id: 'quiet', body: '{"type":"x"}' })).toBe(202);
    expect(await loud).toBe(202);
    expect((await serving.page('/healthz')).status).toBe(200);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });

  it('keeps no serve from stopping when it comes as a token, and again as the answer to it', async () => {
    const token = `/${BACKSLASHES.slice(0, 60)}x`;
    const service = await serveOauth({
      token: (response) => answer(response, 200, { access_token: token, token_type: 'bearer', expires_in: 60 }),
      refuses: (response) => answer(response, 400, { error: BACKSLASHES }),
    });
    const stage = await servingStage({ sandbox: NONE, source: { base_url: service.origin, auth: AUTH } });
    const serving = await stage.serve();
    expect(await codesOf(serving)).toEqual(['bad_token', 'bad_token', 'bad_token']);
    expect(service.apiCalls()).toEqual([]);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });

  it('keeps no serve from stopping when it comes as the answer to a token that is one', async () => {
    const service = await serveOauth({
      token: (response) => void response.end(JSON.stringify({ access_token: '/-_-_-_-_-_', token_type: 'bearer' })),
      refuses: (response) => void response.writeHead(400).end(BACKSLASHES + '-_'.repeat(10_000)),
    });
    const stage = await servingStage({ sandbox: NONE, source: { base_url: service.origin, auth: AUTH } });
    const serving = await stage.serve();
    expect(await codesOf(serving)).toHaveLength(3);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});
