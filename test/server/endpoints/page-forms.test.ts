import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { ControlOrigin, ControlRequest } from '../../../src/server/controls/control-request.ts';
import { type ControlEndpointOptions, createControlEndpoint } from '../../../src/server/endpoints/control-endpoint.ts';
import { createAccessCheck } from '../../../src/server/endpoints/page-access.ts';
import type { Pages } from '../../../src/server/endpoints/pages.ts';
import { rawRequest } from '../../support/raw-request.ts';
import { ask, type Asked, pagesOf } from './page-server.ts';
import { receiverStage } from './receiver-stage.ts';
import { richSnapshot } from './sample-status.ts';

const AUTH = { user: 'ops', password: 'secret word' };
const AUTHORIZATION = `Basic ${Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64')}`;
const HEADERS = { authorization: AUTHORIZATION, host: 'status.example.com', origin: 'https://status.example.com' };

/** Pages with controls that only note what they were asked for. */
function controlled(changes: Partial<ControlEndpointOptions> = {}) {
  const asked: [ControlRequest, ControlOrigin][] = [];
  const refusals: string[] = [];
  const endpoint = createControlEndpoint({
    control: async (request, origin) => {
      asked.push([request, origin]);
      return { answer: { done: true, message: 'content: a <full> scan begins', hint: null }, report: null };
    },
    serve: () => ({ auth: AUTH, host: '127.0.0.1', port: 0, hosts: ['proxied.example.com'] }),
    clock: systemClock,
    refused: (reason) => refusals.push(reason),
    ...changes,
  });
  const pages = pagesOf(richSnapshot, {
    access: createAccessCheck({
      serve: () => ({ auth: AUTH, host: '127.0.0.1', port: 0, hosts: [] }),
      clock: systemClock,
      refused: () => undefined,
    }),
    controls: () => endpoint,
  });
  return { pages, asked, refusals };
}

type Stage = ReturnType<typeof controlled>;

const SYNC = JSON.stringify({ action: 'sync', source: 'blog', resource: 'content', mode: 'full' });

interface Sent {
  fields?: Record<string, string>;
  headers?: Record<string, string>;
  body?: string;
}

async function post(stage: Stage, { fields = {}, headers = {}, body }: Sent = {}): Promise<Asked> {
  const form = { request: SYNC, back: 'sources/blog', ...fields };
  const sent = body ?? new URLSearchParams(form).toString();
  return ask(stage.pages, '/control', { method: 'POST', headers: { ...HEADERS, ...headers }, body: sent });
}

describe('a form of the page', () => {
  it.each<[string, Record<string, string>]>([
    ['with the name that the browser asked for', {}],
    ['from the same site', { 'sec-fetch-site': 'same-origin' }],
    ['through a proxy that says the name', { host: 'inner:8080', 'x-forwarded-host': 'status.example.com' }],
    ['through a proxy whose name is in the settings', { host: 'inner:8080', origin: 'https://proxied.example.com' }],
  ])('is obeyed once, %s, and its reader is sent back to where the answer stands', async (_, headers) => {
    const stage = controlled();
    const answer = await post(stage, { headers });
    expect(answer.status).toBe(303);
    const location = answer.headers['location'] ?? '';
    expect(location).toMatch(/^sources\/blog\?told=[\w-]+$/);
    expect(stage.asked).toStrictEqual([
      [
        { action: 'sync', source: 'blog', resource: 'content', mode: 'full' },
        { via: 'page', by: 'ops' },
      ],
    ]);
    const page = await ask(stage.pages, `/${location}`, { headers: HEADERS });
    expect(page.body).toContain('content: a &lt;full&gt; scan begins');
    expect(stage.refusals).toStrictEqual([]);
  });

  it.each<[string, string, Sent]>([
    ['other_site', 'of another site', { headers: { 'sec-fetch-site': 'cross-site' } }],
    ['other_site', 'of a neighbouring site', { headers: { 'sec-fetch-site': 'same-site' } }],
    ['other_origin', 'of another origin', { headers: { origin: 'https://evil.example.com' } }],
    ['other_origin', 'of no origin', { headers: { origin: 'null' } }],
    ['other_origin', 'of another port', { headers: { origin: 'https://status.example.com:8443' } }],
    ['wrong_request', 'without fields', { body: '' }],
    ['wrong_request', 'that asks for nothing known', { fields: { request: '{"action":"drop","source":"blog"}' } }],
    ['wrong_request', 'with more than was on the page', { fields: { request: '{"action":"reload","all":true}' } }],
    ['wrong_request', 'that is no JSON', { fields: { request: 'sync' } }],
  ])('%s: does nothing %s', async (reason, _, sent) => {
    const stage = controlled();
    const answer = await post(stage, sent);
    expect([answer.status, stage.asked, stage.refusals]).toStrictEqual([403, [], [reason]]);
    expect(answer.body).toMatch(/^Nothing was done/);
  });

  it('is refused without any header that names its page', async () => {
    const stage = controlled();
    const headers = { authorization: AUTHORIZATION, host: HEADERS.host };
    const body = new URLSearchParams({ request: SYNC }).toString();
    const { status } = await ask(stage.pages, '/control', { method: 'POST', headers, body });
    expect([status, stage.asked, stage.refusals]).toStrictEqual([403, [], ['no_origin']]);
  });

  it.each([
    '',
    'sources',
    'https://evil.example.com',
    '//evil.example.com',
    'sources/../../x',
    'sources/blog/content/x',
  ])('sends its reader nowhere else: "%s"', async (back) => {
    const { headers } = await post(controlled(), { fields: { back } });
    expect(headers['location']).toMatch(/^\.\/\?told=/);
  });

  it('is not there without a name and a password, whatever is sent', async () => {
    const pages = pagesOf(richSnapshot);
    const { body } = await ask(pages, '/', { headers: HEADERS });
    expect(body).not.toMatch(/<button|method="post"/);
    const answers = await Promise.all([
      ask(pages, '/control', { headers: HEADERS, method: 'POST', body: `request=${SYNC}` }),
      ask(pages, '/control', { headers: HEADERS, method: 'POST' }),
    ]);
    expect(answers.map(({ status }) => status)).toStrictEqual([404, 404]);
  });

  it('is JSON for programs, with the same password, that no other site has a browser send', async () => {
    const stage = controlled();
    const json = { 'content-type': 'application/json' };
    const answer = await post(stage, { headers: json, body: SYNC });
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { done: true, hint: null }]);
    expect(stage.asked).toHaveLength(1);
    const forged = await post(stage, { headers: { ...json, origin: 'https://evil.example.com' }, body: SYNC });
    expect([forged.status, (await post(stage, { headers: json, body: 'token=1' })).status]).toStrictEqual([403, 403]);
    expect(stage.asked).toHaveLength(1);
  });
});

describe('a form on its way through the receiver', () => {
  it('reaches the pages if it may, is small, and is a form', async () => {
    const seen: (string | undefined)[] = [];
    const pages: Pages = async ({ method, headers }, { readBody }) => {
      if (!headers.has('authorization')) return new Response('no', { status: 401 });
      seen.push(`${method} ${(await readBody()) ?? '-'}`);
      return new Response(null, { status: 303 });
    };
    const stage = await receiverStage({ pages });
    const form = { 'content-type': 'application/x-www-form-urlencoded', authorization: 'x' };
    const send = async (headers: Record<string, string>, body: string, method = 'POST') =>
      (await rawRequest('127.0.0.1', stage.port, { method, path: '/control', headers, body })).status;
    expect(await send(form, 'token=1')).toBe(303);
    expect(await send({ ...form, authorization: 'x', expect: '100-continue' }, 'token=2')).toBe(303);
    expect(seen).toStrictEqual(['POST token=1', 'POST token=2']);
    seen.splice(0);
    expect(await send({ 'content-type': 'application/x-www-form-urlencoded' }, 'token=1')).toBe(401);
    expect(await send({ ...form, 'content-type': 'text/plain' }, '{}')).toBe(415);
    expect(await send(form, 'x'.repeat(20_000))).toBe(413);
    expect(await send(form, 'token=1', 'PUT')).toBe(405);
    expect(await send({}, '', 'GET')).toBe(405);
    expect(seen.filter((line) => line !== 'POST -')).toStrictEqual([]);
    expect(stage.notes.map(({ event, reason }) => [event, reason])).toStrictEqual([
      ['control_refused', 'content_type'],
      ['control_refused', 'too_large'],
    ]);
  });
});
