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

/** What the first runs of a source ended with, one for each resource. */
async function codesOf(serving: Serving, source: string): Promise<string[]> {
  let codes: string[] = [];
  await until('told', async () => {
    const { resources } = sourceIn(await serving.status(), source);
    codes = resources.flatMap(({ runs }) => runs.at(-1)?.error?.code ?? []);
    return codes.length === resources.length || resources.map(({ runs }) => runs);
  });
  return codes;
}

describe('a text that nearly is a secret everywhere', { timeout: 120_000 }, () => {
  it('keeps no serve from other deliveries or from stopping when it comes in one, as a token, or as an answer', async () => {
    const token = `/${BACKSLASHES.slice(0, 60)}x`;
    const noToken = await serveOauth({
      token: (response) => answer(response, 200, { access_token: token, token_type: 'bearer', expires_in: 60 }),
      refuses: (response) => answer(response, 400, { error: BACKSLASHES }),
    });
    const isToken = await serveOauth({
      token: (response) => void response.end(JSON.stringify({ access_token: '/-_-_-_-_-_', token_type: 'bearer' })),
      refuses: (response) => void response.writeHead(400).end(BACKSLASHES + '-_'.repeat(10_000)),
    });
    const sources = {
      loud: { ping: { success: PING } },
      blog: {},
      no_token: { base_url: noToken.origin, auth: AUTH },
      is_token: { base_url: isToken.origin, auth: AUTH },
    };
    const stage = await servingStage({ sandbox: NONE, sources, isInside: true });
    const serving = await stage.serve();
    const loud = serving.deliver({ id: 'loud', source: 'loud', body: `{"type":"x","text":"${BACKSLASHES}"}` });
    expect(await serving.deliver({ id: 'quiet', body: '{"type":"x"}' })).toBe(202);
    expect(await loud).toBe(202);
    expect((await serving.page('/healthz')).status).toBe(200);
    expect(await codesOf(serving, 'no_token')).toEqual(['bad_token', 'bad_token', 'bad_token']);
    expect(noToken.apiCalls()).toEqual([]);
    expect(await codesOf(serving, 'is_token')).toHaveLength(3);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});
