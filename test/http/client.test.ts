import { describe, expect, it } from 'vitest';
import { newMeter, type AttemptEvent } from '../../src/http/client.ts';
import { PAGE, clientFor, errorOf, get, json, openRateLimiter, serve, testProfile } from './stage.ts';

describe('one request', () => {
  it('sends the credential and the headers of the profile, and gives back text, value, times and headers', async () => {
    const told = Math.floor(Date.now() / 1_000) * 1_000 - 3_600_000;
    const stage = await serve((_request, response) =>
      json(response, PAGE, 200, { 'x-more': 'yes', date: new Date(told).toUTCString() }),
    );
    const client = clientFor(stage.origin, { profile: testProfile({ headers: { 'X-Tenant': 'blog' } }) });
    const before = Date.now();
    const answer = await get(client, `${stage.origin}/v1/content?limit=1`);
    expect(stage.seen[0]).toMatchObject({
      method: 'GET',
      url: '/v1/content?limit=1',
      headers: {
        authorization: 'Bearer canary-api-key',
        'content-type': 'application/json',
        accept: 'application/json',
        'x-tenant': 'blog',
      },
    });
    expect(answer).toMatchObject({ outcome: 'ok', status: 200, json: PAGE, bytes: Buffer.from(JSON.stringify(PAGE)) });
    expect(answer.headers['x-more']).toBe('yes');
    expect(answer.serverDate).toBe(told);
    expect(answer.requestedAt).toBeGreaterThanOrEqual(before);
  });

  it.each([
    ['from another year', 'Sat, 01 Jan 2022 00:00:00 GMT'],
    ['in another form', new Date().toISOString()],
  ])('takes a Date that is %s for none', async (_name, date) => {
    const stage = await serve((_request, response) => json(response, PAGE, 200, { date }));
    expect((await get(clientFor(stage.origin), `${stage.origin}/v1/content`)).serverDate).toBeNull();
  });

  it('takes a slot in its lane for every attempt, retries included, and counts them', async () => {
    const stage = await serve((_request, response, nth) => json(response, nth < 3 ? '{}' : PAGE, nth < 3 ? 500 : 200));
    const rateLimiter = openRateLimiter();
    const meter = newMeter();
    const answer = await get(clientFor(stage.origin, { rateLimiter }), `${stage.origin}/v1/content`, meter);
    expect(answer.status).toBe(200);
    expect(rateLimiter.lanes).toEqual(['backfill', 'backfill', 'backfill']);
    expect(rateLimiter.facts).toHaveLength(3);
    expect(meter).toEqual({
      requests: 3,
      retries: 2,
      limited: 0,
      bytes: 2 + 2 + JSON.stringify(PAGE).length,
      outcomes: { retry: 2, ok: 1 },
    });
  });

  it('logs every attempt with its outcome and the request id', async () => {
    const events: AttemptEvent[] = [];
    const stage = await serve((_request, response, nth) =>
      json(response, PAGE, nth === 1 ? 503 : 200, { 'x-request-id': `r${nth}` }),
    );
    await get(
      clientFor(stage.origin, { log: (event) => events.push(event) }),
      `${stage.origin}/v1/content?cursor=abc&k=canary`,
    );
    expect(events).toMatchObject([
      {
        msg: 'request',
        method: 'GET',
        status: 503,
        outcome: 'retry',
        code: 'service_error',
        attempt: 1,
        request_id: 'r1',
      },
      { msg: 'request', method: 'GET', status: 200, outcome: 'ok', attempt: 2, request_id: 'r2' },
    ]);
    expect(events[0]?.url).toBe(`${stage.origin}/v1/content?cursor=abc&k=***`);
  });

  it.each([
    ['before it is sent', true],
    ['while it is under way', false],
  ])('ends with the reason of the signal when it is aborted %s', async (_name, early) => {
    const reason = new Error('interrupted');
    const controller = new AbortController();
    const stage = await serve(() => controller.abort(reason));
    if (early) controller.abort(reason);
    await expect(
      get(clientFor(stage.origin), `${stage.origin}/v1/content`, newMeter(), controller.signal),
    ).rejects.toBe(reason);
  });

  it('ends with the reason of the signal when it is aborted while it waits for the next attempt', async () => {
    const controller = new AbortController();
    const stage = await serve((_request, response) => {
      json(response, '', 500);
      setTimeout(() => controller.abort(new Error('interrupted')), 20);
    });
    const client = clientFor(stage.origin, { backoff: { base: 60_000, cap: 60_000 } });
    await expect(get(client, `${stage.origin}/v1/content`, newMeter(), controller.signal)).rejects.toThrow(
      'interrupted',
    );
    expect(stage.seen).toHaveLength(1);
  });
});

describe('what is refused before anything is sent', () => {
  it.each([
    ['a line break in a value', { 'x-a': 'b\r\nevil: 1' }],
    ['a line break in a name', { 'x-a\r\nb': 'c' }],
    ['NUL in a value', { 'x-a': 'b\u0000' }],
    ['a value outside Latin-1', { 'x-a': '😀' }],
    ['an Authorization of its own', { Authorization: 'Bearer x' }],
  ])('F210 a profile header with %s', (_name, headers) => {
    expect(() => testProfile({ headers })).toThrow(/expected/);
  });

  it.each([
    ['F210 a line break in a cursor', (origin: string) => `${origin}/v1/content?cursor=a%0D%0Ab`, 'bad_query_value'],
    ['F210 a line break in an id', (origin: string) => `${origin}/v1/content/a%0ab`, 'bad_query_value'],
    ['F055 another origin', () => 'http://127.0.0.2:9/v1/content', 'origin_refused'],
    [
      'F055 a user name and password',
      (origin: string) => `${origin.replace('://', '://me:pw@')}/v1/content`,
      'origin_refused',
    ],
    ['F205 a file', () => 'file:///etc/passwd', 'origin_refused'],
  ])('%s in an address', async (_name, url, code) => {
    const stage = await serve((_request, response) => json(response, PAGE));
    const error = await errorOf(get(clientFor(stage.origin), url(stage.origin)));
    expect(error).toMatchObject({ code, recovery: 'stop' });
    expect(stage.seen).toHaveLength(0);
  });
});
