import { gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { timestampText } from '../../../src/model/timestamp-text.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { receiverStage, SECRET, send, signed, type Sent } from './receiver-stage.ts';

const HOUR_MS = 3_600_000;
const JSON_TYPE = { 'content-type': 'application/json' };
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

describe.for(eitherDatabase(import.meta.filename))('a delivery on $name', (database) => {
  it('that is signed stands in the inbox when it is answered, as it came', async () => {
    const clock = new HandClock();
    const stage = await receiverStage({ database, clock, source: { webhooks: { kind: 'header:x-kind' } } });
    const delivery = signed(stage.source, { id: 'msg_a', at: clock.now(), body: '{"data":{"id":"é"}}' });
    const answer = await send(stage.port, {
      ...delivery,
      headers: { ...delivery.headers, 'X-Kind': 'k', 'x-no': 'n' },
    });
    expect([answer.status, answer.body]).toEqual([202, '']);
    const [row, ...others] = await stage.rows();
    expect(others).toEqual([]);
    expect(row).toMatchObject({
      seq: 1,
      delivery_id: 'msg_a',
      state: 'waiting',
      repeats: 0,
      headers: '{"x-kind":"k"}',
    });
    expect(row?.received_at).toBe(timestampText(clock.now()));
    expect(row?.body.toString()).toBe('{"data":{"id":"é"}}');
    expect(stage.arrivals).toEqual([1]);
  });

  it('F172 that comes 100 times at once is one row, and all are told that it is there', async () => {
    const stage = await receiverStage({ database });
    const delivery = signed(stage.source, { id: 'msg_a' });
    const answers = await Promise.all(Array.from({ length: 100 }, () => send(stage.port, delivery)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(await stage.rows()).toEqual([expect.objectContaining({ delivery_id: 'msg_a', repeats: 99 })]);
    expect(stage.arrivals).toEqual([1]);
    expect(stage.results).toEqual({ stored: 1, repeat: 99 });
  });

  it('F174 that is replayed is refused once it is too old, and is known as long as it could be believed', async () => {
    const clock = new HandClock();
    const stage = await receiverStage({ database, clock });
    const delivery = signed(stage.source, { id: 'msg_a', at: clock.now() });
    const replay = async (afterMs: number): Promise<unknown> => {
      await clock.advance(afterMs);
      return [(await send(stage.port, delivery)).status, (await stage.rows()).map(({ repeats }) => repeats)];
    };
    expect(await replay(0)).toEqual([202, [0]]);
    expect(await replay(300_000)).toEqual([202, [1]]);
    expect(await replay(1_000)).toEqual([401, [1]]);
  });

  it('F174 is forgotten when it is finished and was kept as long as it was to be; a repeat is then an event', async () => {
    const clock = new HandClock();
    const stage = await receiverStage({
      database,
      clock,
      source: {
        webhook: {
          secrets: [{ value: 'abc' }],
          max_body: 9_999,
          keep: HOUR_MS,
          attempts: 8,
          max_waiting: 1_000_000,
          max_waiting_size: 1_073_741_824,
        },
        webhooks: { signature: 'vercel' },
      },
    });
    const delivery = signed(stage.source, { id: 'msg_a', body: '{"id":"msg_a"}' });
    await send(stage.port, delivery);
    const finished = { kind: null, resource: null, record_id: null, reason: null, attempts: 1, due_at: null };
    const finished_at = timestampText(clock.now());
    await stage.receiver.inbox('blog').settle([{ seq: 1, state: 'done', finished_at, ...finished, readEvents: 1 }]);
    await clock.advance(HOUR_MS - 60_000);
    await send(stage.port, delivery);
    expect(await stage.rows()).toEqual([expect.objectContaining({ seq: 1, state: 'done', repeats: 1 })]);
    // What is asked of a server is answered in its own time.
    await vi.waitFor(async () => {
      // An inbox that nobody uses is looked at now and then only.
      await clock.advance(20 * 60_000);
      expect(await stage.rows()).toEqual([]);
    }, 20_000);
    await send(stage.port, delivery);
    expect(await stage.rows()).toEqual([expect.objectContaining({ state: 'waiting', repeats: 0 })]);
  });

  it('F187 whose body is no JSON is stored all the same: its sender has done its part', async () => {
    const stage = await receiverStage({ database });
    const bodies = [
      '{"a":',
      '',
      '[',
      '\u0000',
      'null',
      '{"a":1e999}',
      '['.repeat(50_000),
      Buffer.from([0xff, 0xfe, 0x00]),
    ];
    for (const body of bodies) expect((await send(stage.port, signed(stage.source, { body }))).status).toBe(202);
    expect((await stage.rows()).map((row) => row.body)).toEqual(bodies.map((body) => Buffer.from(body)));
  });

  it.for<[what: string, headers: object, body: string | Buffer, expected: string]>([
    ['gzip', { 'content-encoding': 'gzip' }, gzipSync('{"id":1}'), '{"id":1}'],
    ['a form', FORM, 'a=b&payload=%7B%22id%22%3A+%22%C3%A9%22%7D', '{"id": "é"}'],
    ['a gzip form', { ...FORM, 'content-encoding': 'gzip' }, gzipSync('payload=%7B%7D'), '{}'],
    ['a form without its field', FORM, 'a=b', 'content_type'],
    ['a gzip bomb', { 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(1_048_577)), 'too_large'],
    ['no gzip', { 'content-encoding': 'gzip' }, '{"id":1}', 'content_encoding'],
  ])('that is %s: the raw bytes are signed, and the JSON in them is stored', async ([, more, body, expected]) => {
    const stage = await receiverStage({ database });
    const { headers, ...delivery } = signed(stage.source, { body });
    await send(stage.port, { ...delivery, headers: { ...headers, ...more } });
    const refused = Object.keys(stage.results).filter((result) => result !== 'stored');
    expect([...(await stage.rows()).map((row) => row.body.toString()), ...refused]).toEqual([expected]);
  });
});

describe('what is refused', () => {
  const plain = { headers: { 'content-type': 'application/json' }, body: '{}' };
  const CASES: [string, Sent, number][] = [
    ['a body without a signature', plain, 401],
    ['an unknown source', { ...plain, path: '/webhooks/other' }, 404],
    ['a path below a source', { ...plain, path: '/webhooks/blog/x' }, 404],
    ['a path that climbs', { ...plain, path: '/webhooks/../webhooks/blog' }, 404],
    ['a path that climbs in escapes', { ...plain, path: '/%2e%2e/webhooks/blog' }, 404],
    ['a source in escapes', { ...plain, path: '/webhooks/%62log' }, 404],
    ['a path with a parameter', { method: 'GET', path: '/a;b' }, 404],
    ['no source', { ...plain, path: '/webhooks' }, 404],
    ['an empty segment', { method: 'GET', path: '//healthz' }, 404],
    ['GET', { method: 'GET' }, 405],
    ['HEAD', { method: 'HEAD' }, 405],
    ['PUT', { ...plain, method: 'PUT' }, 405],
    ['DELETE', { method: 'DELETE' }, 405],
    ['POST to a page', { ...plain, path: '/' }, 405],
    ['POST to /healthz', { ...plain, path: '/healthz' }, 405],
    ['no content type', { body: '{}' }, 415],
    ['plain text', { headers: { 'content-type': 'text/plain' }, body: '{}' }, 415],
    ['a form', { headers: FORM, body: 'payload={}' }, 401],
    ['a gzip body', { headers: { ...JSON_TYPE, 'content-encoding': 'gzip' }, body: 'x' }, 401],
    ['an unknown coding', { headers: { ...JSON_TYPE, 'content-encoding': 'zstd' }, body: 'x' }, 415],
  ];

  it('F183 is told by its status alone, in the same form for all', async () => {
    const stage = await receiverStage();
    for (const [name, sent, status] of CASES) {
      const answer = await send(stage.port, sent);
      const { date: _date, ...headers } = answer.headers;
      const allow = sent.path === undefined ? 'POST' : 'GET, HEAD';
      const form = { connection: 'close', 'content-length': '0', ...(status === 405 ? { allow } : {}) };
      expect({ name, status: answer.status, body: answer.body, headers }).toEqual({
        name,
        status,
        body: '',
        headers: form,
      });
    }
    expect(await stage.rows()).toEqual([]);
    expect((await send(stage.port, signed(stage.source))).status).toBe(202);
  });

  it('F186 is not told apart by whether the source exists, as far as the body and its type go', async () => {
    const stage = await receiverStage();
    const other = { ...signed(stage.source), path: '/webhooks/other' };
    expect((await send(stage.port, other)).status).toBe(404);
    expect(stage.results).toEqual({});
    expect(await stage.rows()).toEqual([]);
  });

  it('F165 is what a secret has signed that has run out; the others count on', async () => {
    const clock = new HandClock();
    const secrets = [
      { value: SECRET, until: clock.now() + HOUR_MS },
      { value: `whsec_${Buffer.alloc(32, 1).toString('base64')}` },
    ];
    const stage = await receiverStage({ clock, source: { webhook: { ...plainSecret(), secrets } } });
    expect((await send(stage.port, signed(stage.source, { at: clock.now() }))).status).toBe(202);
    await clock.advance(HOUR_MS + 1);
    expect((await send(stage.port, signed(stage.source, { at: clock.now() }))).status).toBe(401);
    const [, newer] = secrets;
    if (newer === undefined) throw new Error('there are two');
    const rotated = { ...stage.source, webhook: { ...stage.source.webhook, secrets: [newer] } };
    expect((await send(stage.port, signed(rotated, { at: clock.now() }))).status).toBe(202);
  });
});

function plainSecret() {
  return {
    secrets: [{ value: 'abc' }],
    max_body: 99_999,
    keep: HOUR_MS,
    attempts: 8,
    max_waiting: 1_000_000,
    max_waiting_size: 1_073_741_824,
  };
}
