import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../../support/databases.ts';
import { listenTo, openSocket, say, statuses } from './raw-socket.ts';
import { receiverStage, send, signed, type Sent, type Stage } from './receiver-stage.ts';

const HEAD = 'POST /webhooks/blog HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';

describe('a body that is too large', () => {
  it('F179 is refused before any of it is read where its length is said', async () => {
    const stage = await receiverStage();
    const said = await say(stage.port, `${HEAD}Content-Length: 1000000000\r\n\r\n`, 3_000);
    expect([statuses(said), said.closed]).toEqual([[413], true]);
    expect(stage.results).toEqual({ too_large: 1 });
  });

  it('F179 T24 is refused as well if its sender asks first; one that fits is taken', async () => {
    const stage = await receiverStage();
    const expect100 = `${HEAD}Expect: 100-continue\r\n`;
    const large = await say(stage.port, `${expect100}Content-Length: 1000000000\r\n\r\n`, 3_000);
    expect([statuses(large), large.closed]).toEqual([[100, 413], true]);
    expect(statuses(await say(stage.port, `${expect100}Content-Length: 2\r\n\r\n`))).toEqual([100]);
    const delivery = signed(stage.source);
    const [head = '', body = ''] = written({
      ...delivery,
      headers: { ...delivery.headers, expect: '100-continue' },
    }).split(/(?<=\r\n\r\n)/);
    const socket = openSocket(stage.port);
    socket.write(head);
    expect(statuses(await listenTo(socket, 200))).toEqual([100]);
    socket.write(body);
    expect(statuses(await listenTo(socket, 500))).toEqual([202]);
  });

  it('F179 is cut where it never ends, whether it comes in large chunks or in single bytes', async () => {
    const stage = await receiverStage({ source: { webhook: { ...WEBHOOK, max_body: 20_000 } } });
    const chunked = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
    for (const size of [10_000, 1]) {
      const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`;
      const said = await say(stage.port, chunked + chunk.repeat(Math.ceil(20_001 / size)), 3_000);
      expect([statuses(said), said.closed]).toEqual([[413], true]);
    }
    expect((await send(stage.port, signed(stage.source))).status).toBe(202);
  });

  it('F179 takes one byte less than too many', async () => {
    const stage = await receiverStage({ source: { webhook: { ...WEBHOOK, max_body: 20_000 } } });
    expect((await send(stage.port, signed(stage.source, { body: 'x'.repeat(20_000) }))).status).toBe(202);
    expect((await send(stage.port, signed(stage.source, { body: 'x'.repeat(20_001) }))).status).toBe(413);
  });

  it('F179 of many senders together is bounded too: who holds most is cut, and small ones are not', async () => {
    const stage = await receiverStage({ limits: { bodyBytes: 100_000 } });
    const greedy = [60_000, 30_000].map((size) => {
      const socket = openSocket(stage.port);
      socket.write(`${HEAD}Content-Length: 1000000\r\n\r\n${'x'.repeat(size)}`);
      return listenTo(socket, 1_500);
    });
    await delay(200);
    expect((await send(stage.port, signed(stage.source, { body: 'x'.repeat(20_000) }))).status).toBe(202);
    const [first, second] = await Promise.all(greedy);
    expect(first === undefined ? [] : statuses(first)).toEqual([503]);
    expect(second === undefined ? [] : statuses(second)).toEqual([]);
  });
});

describe('a sender that takes its time', () => {
  it('F181 is cut after the time for a request, while others are served', async () => {
    const limits = { headersMs: 400, requestMs: 600, checkIntervalMs: 50 };
    const stage = await receiverStage({ limits });
    const slow = Array.from({ length: 100 }, () => openSocket(stage.port));
    const began = performance.now();
    const closed = slow.map(async (socket) => {
      const { text } = await listenTo(socket, 20_000);
      return { text, after: performance.now() - began };
    });
    const drip = setInterval(() => slow.forEach((socket) => socket.writable && socket.write('P')), 50);
    try {
      expect((await send(stage.port, signed(stage.source))).status).toBe(202);
      const bodyless = say(stage.port, `${HEAD}Content-Length: 10\r\n\r\n{`, 20_000);
      for (const { after } of await Promise.all(closed)) expect(after).toBeLessThan(15_000);
      expect(statuses(await bodyless)).toEqual([408]);
    } finally {
      clearInterval(drip);
    }
  });
});

describe.for(eitherDatabase(import.meta.filename))('a flood on $name', (database) => {
  it('F189 of unsigned requests leaves signed ones their turn', async () => {
    const stage = await receiverStage({ database });
    const flood = new AbortController();
    const flooding = Array.from({ length: 40 }, () => keepFlooding(stage, flood.signal));
    const answers: number[] = [];
    for (let sent = 0; sent < 40; sent += 1) answers.push((await send(stage.port, signed(stage.source))).status);
    flood.abort();
    await Promise.all(flooding);
    expect(answers.filter((status) => status === 202).length).toBe(40);
    expect(stage.results['no_signature']).toBeGreaterThan(40);
    expect((await stage.rows()).length).toBe(40);
  });
});

/** A request as its bytes. */
function written({ headers, body, path }: Required<Sent>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return `POST ${path} HTTP/1.1\r\nHost: x\r\n${lines.join('')}${length}\r\n${String(body)}`;
}

async function keepFlooding(stage: Stage, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const socket = openSocket(stage.port);
    const ask = (): void =>
      void (signal.aborted ? socket.destroy() : socket.write(`${HEAD}Content-Length: 2\r\n\r\n{}`));
    socket.on('connect', ask).on('data', ask);
    await once(socket, 'close');
  }
}

const WEBHOOK = {
  secrets: [{ value: `whsec_${Buffer.alloc(32, 7).toString('base64')}` }],
  max_body: 1_048_576,
  max_waiting: 1_000_000,
  max_waiting_size: 1_073_741_824,
  keep: 3_600_000,
  attempts: 8,
};
