import { describe, expect, it } from 'vitest';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';
import { createJudge, type ReceivedResponse } from '../../../src/http/outcome/outcome-table.ts';
import { readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import { clientFor, errorOf, get, json, openRateLimiter, PAGE, serve, testProfile } from '../stage.ts';

const judge = createJudge([]);
const NOW = Date.parse('2026-11-20T08:00:00Z');

function seen(over: Partial<ReceivedResponse>): ReceivedResponse {
  const { headers = {} } = over;
  return {
    status: 200,
    headers,
    limits: readAnswerLimits({ headers, receivedAt: NOW }, rateDialectSchema.parse('auto')),
    transport: null,
    content: null,
    json: undefined,
    excerpt: '',
    isRecord: false,
    ...over,
  };
}

describe('the outcome table', () => {
  it.each<[string, Partial<ReceivedResponse>, string, string]>([
    ['200 with records', { json: { data: [{ id: '1' }] } }, 'ok', 'ok'],
    ['204 without content', { status: 204, content: 'empty_body' }, 'retry', 'empty_body'],
    ['400', { status: 400 }, 'stop', 'bad_request'],
    ['401', { status: 401 }, 'reauth', 'auth_failed'],
    ['F028 403 of a permission', { status: 403, excerpt: '{"message":"no access"}' }, 'stop', 'forbidden'],
    [
      'F028 403 that says rate limit',
      { status: 403, excerpt: 'You have exceeded a secondary rate limit' },
      'limited',
      'limited',
    ],
    [
      'F028 403 with nothing remaining',
      { status: 403, headers: { 'x-ratelimit-remaining': '0' } },
      'limited',
      'limited',
    ],
    ['F028 403 with ten remaining', { status: 403, headers: { 'x-ratelimit-remaining': '10' } }, 'stop', 'forbidden'],
    ['F028 403 with r=0', { status: 403, headers: { ratelimit: '"default";r=0;t=20' } }, 'limited', 'limited'],
    ['F028 403 with r=05', { status: 403, headers: { ratelimit: '"default";r=05;t=20' } }, 'stop', 'forbidden'],
    ['F028 403 with a wait', { status: 403, headers: { 'retry-after': '60' } }, 'limited', 'limited'],
    ['404', { status: 404 }, 'stop', 'not_found'],
    ['F019 429', { status: 429 }, 'limited', 'limited'],
    ['500', { status: 500 }, 'retry', 'service_error'],
    ['F029 503 with a wait', { status: 503, headers: { 'retry-after': '600' } }, 'limited', 'limited'],
    ...['408', '425', '502', '529'].map((status): [string, Partial<ReceivedResponse>, string, string] => [
      `F040 ${status}`,
      { status: Number(status) },
      'retry',
      'service_error',
    ]),
    ['F001 a refused connection', { status: 0, transport: 'ECONNREFUSED' }, 'retry', 'unreachable'],
    ['F001 an unknown name', { status: 0, transport: 'ENOTFOUND' }, 'retry', 'unreachable'],
    ['F002 a reset in the middle', { transport: 'ECONNRESET' }, 'retry', 'unreachable'],
    ['F003 a body that ends early', { transport: 'UND_ERR_SOCKET' }, 'retry', 'unreachable'],
    ['F010 too large headers', { status: 0, transport: 'UND_ERR_HEADERS_OVERFLOW' }, 'stop', 'unsupported_encoding'],
    ['F011 no HTTP', { status: 0, transport: 'HPE_INVALID_CONSTANT' }, 'retry', 'unreachable'],
    ['F012 an expired certificate', { status: 0, transport: 'CERT_HAS_EXPIRED' }, 'stop', 'tls'],
    ['F034 declared as a web page', { headers: { 'content-type': 'text/html; charset=utf-8' } }, 'stop', 'not_the_api'],
    ['F032 errors in the body', { json: { errors: ['boom'] } }, 'retry', 'error_in_body'],
    ['errors beside records', { json: { data: [{ id: '1' }], errors: ['boom'] } }, 'retry', 'error_in_body'],
    ...[null, [], { code: 0, message: '' }].map((error): [string, Partial<ReceivedResponse>, string, string] => [
      `an error that says nothing, ${JSON.stringify(error)}`,
      { json: { data: [{ id: '1' }], error, errors: error } },
      'ok',
      'ok',
    ]),
    ['a record with a field named error', { json: { id: '1', error: 'x' }, isRecord: true }, 'ok', 'ok'],
    ...[
      { incomplete_results: true },
      { timed_out: true },
      { meta: { partial: true } },
      { _shards: { total: 5, successful: 4, failed: 1 } },
    ].map((sign): [string, Partial<ReceivedResponse>, string, string] => [
      `records of which ${JSON.stringify(sign)} says that they are not all`,
      { json: { data: [{ id: '1' }], ...sign } },
      'retry',
      'partial_answer',
    ]),
    [
      'signs that say that nothing is left out',
      { json: { incomplete_results: false, timed_out: false, meta: { partial: null }, _shards: { failed: 0 } } },
      'ok',
      'ok',
    ],
    ['a record with a field named partial', { json: { id: '1', partial: true }, isRecord: true }, 'ok', 'ok'],
    ['a throttled answer by its body', { json: { errors: [{ code: 'THROTTLED' }] } }, 'limited', 'limited'],
  ])('%s', (_name, over, outcome, code) => {
    expect(judge(seen(over))).toMatchObject({ outcome, code });
  });

  it.each<[string, object, Partial<ReceivedResponse>, string]>([
    ['a status', { status: '404', outcome: 'skip' }, { status: 404 }, 'skip'],
    [
      'a header',
      { header: { name: 'Stripe-Should-Retry', contains: 'false' }, outcome: 'stop' },
      { status: 500, headers: { 'stripe-should-retry': 'false' } },
      'stop',
    ],
    ['a header that is not there', { header: { name: 'x-no' }, outcome: 'stop' }, { status: 500 }, 'retry'],
    [
      'a place in the body',
      { body: { path: 'status.state', contains: 'maintenance' }, outcome: 'limited' },
      { json: { status: { state: 'Maintenance' } } },
      'limited',
    ],
    [
      'the whole body',
      { status: '200', body: { path: '', contains: 'later' }, outcome: 'retry' },
      { json: ['try later'] },
      'retry',
    ],
    [
      'the words of an error beside records',
      { status: '2xx', body: { path: 'errors', contains: 'notResolvable' }, outcome: 'ok' },
      { json: { data: [{ id: '1' }], errors: [{ sys: { id: 'notResolvable' } }] } },
      'ok',
    ],
    ['an answer that did not come', { status: '2xx', outcome: 'skip' }, { transport: 'ECONNRESET' }, 'retry'],
    ['a status as ok whose body is unreadable', { status: '200', outcome: 'ok' }, { content: 'bad_json' }, 'retry'],
    ['nothing at all, which holds for everything', { outcome: 'skip' }, { status: 403 }, 'skip'],
  ])("the profile's row decides first: %s", (_name, rule, over, outcome) => {
    const { outcomes } = testProfile({ outcomes: [rule] });
    expect(createJudge(outcomes)(seen(over)).outcome).toBe(outcome);
  });
});

describe('Retry-After', () => {
  it.each([
    ['1m30s', 'limited'],
    ['Friday, 20-Nov-26 08:00:30 GMT', 'limited'],
    ['9'.repeat(40), 'limited'],
    ['', 'retry'],
    ['1e3', 'retry'],
    ['in March', 'retry'],
    [String(NOW / 1_000 - 7_200), 'retry'],
  ])('%j means the same to the outcome and to the rate limiter', (value, outcome) => {
    const headers = { 'retry-after': value };
    const hint = readAnswerLimits({ headers, body: undefined, receivedAt: NOW }, testProfile().rate_limit);
    for (const status of [503, 408]) expect(judge(seen({ status, headers })).outcome).toBe(outcome);
    expect(hint.waitMs !== null).toBe(outcome === 'limited');
  });
});

describe('what an outcome does', () => {
  it('the rate limiter learns what a body says about the limits', async () => {
    const stage = await serve((_request, response, nth) =>
      json(response, nth === 1 ? { retry_after: 9 } : PAGE, nth === 1 ? 429 : 200),
    );
    const rateLimiter = openRateLimiter({ body: [{ path: 'retry_after', means: 'wait' }] });
    await get(clientFor(stage.origin, { rateLimiter }), `${stage.origin}/v1/content`);
    expect(rateLimiter.facts[0]).toMatchObject({ limited: true, limits: { retryAfterMs: null, waitMs: 9_000 } });
  });

  it('a service that limits for ever is given up', async () => {
    const stage = await serve((_request, response) => json(response, '', 429));
    expect(await errorOf(get(clientFor(stage.origin), `${stage.origin}/v1/content`))).toMatchObject({
      code: 'limited',
      recovery: 'retry',
    });
    expect(stage.seen).toHaveLength(50);
  });

  it('F037 a skip by the profile has no value', async () => {
    const stage = await serve((_request, response) => json(response, { detail: 'no' }, 404));
    const profile = testProfile({ outcomes: [{ status: '404', outcome: 'skip' }] });
    expect(await get(clientFor(stage.origin, { profile }), `${stage.origin}/v1/content/1`)).toMatchObject({
      outcome: 'skip',
      status: 404,
      json: null,
    });
  });
});
