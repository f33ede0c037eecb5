import { describe, expect, it } from 'vitest';
import { say, statuses } from './raw-socket.ts';
import { receiverStage, send, signed } from './receiver-stage.ts';

const POST = 'POST /webhooks/blog HTTP/1.1\r\nHost: x\r\n';
const TYPE = 'Content-Type: application/json\r\n';
/** What an attacker hides behind a request that two parsers end at different places. */
const HIDDEN = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';

/** Requests of which no parser in front of us may take another part for the body than we do. */
const SMUGGLED: [string, string][] = [
  [
    'CL.TE',
    `${POST}${TYPE}Content-Length: ${HIDDEN.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ],
  ['TE.CL', `${POST}${TYPE}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n${HIDDEN}\r\n0\r\n\r\n`],
  ['TE.TE', `${POST}${TYPE}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n${HIDDEN}`],
  ['a blank before the colon', `${POST}${TYPE}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${HIDDEN}`],
  ['two lengths', `${POST}${TYPE}Content-Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  ['a negative length', `${POST}${TYPE}Content-Length: -1\r\n\r\n${HIDDEN}`],
  ['line feeds alone', `${POST}${TYPE}Content-Length: 0\r\n\r\n${HIDDEN}`.replaceAll('\r\n', '\n')],
  ['a folded header', `${POST}${TYPE}X-A: b\r\n Content-Length: 5\r\n\r\n${HIDDEN}`],
  ['NUL in a header', `${POST}${TYPE}X-A: b\0c\r\nContent-Length: 0\r\n\r\n${HIDDEN}`],
  ['a chunk size that is no number', `${POST}${TYPE}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n${HIDDEN}`],
  [
    'a chunk that is longer than it says',
    `${POST}${TYPE}Transfer-Encoding: chunked\r\n\r\n1\r\nxx${HIDDEN}\r\n0\r\n\r\n`,
  ],
  ['no host', `POST /webhooks/blog HTTP/1.1\r\n${TYPE}Content-Length: 0\r\n\r\n`],
  ['headers without an end', `${POST}${TYPE}${`X-A: ${'a'.repeat(200)}\r\n`.repeat(200)}`],
];

describe('a request that is not quite HTTP', () => {
  it.each(SMUGGLED)('F182 with %s brings nothing through behind it, and does no harm', async (_, bytes) => {
    const stage = await receiverStage();
    const said = await say(stage.port, Buffer.from(bytes, 'latin1'), 1_000);
    expect(statuses(said).filter((status) => status < 400)).toEqual([]);
    // One answer at most, and then the connection is of no more use.
    expect(statuses(said).length).toBeLessThanOrEqual(1);
    expect(said.closed).toBe(true);
    expect(said.text).not.toContain('ok');
    expect((await send(stage.port, signed(stage.source))).status).toBe(202);
  });

  it('F182 says 431 for headers that are too large, and 400 for anything else', async () => {
    const stage = await receiverStage();
    expect(statuses(await say(stage.port, 'nonsense\r\n\r\n', 1_000))).toEqual([400]);
    const large = await say(stage.port, `${POST}${TYPE}X-A: ${'a'.repeat(20_000)}\r\n\r\n`, 1_000);
    expect(statuses(large)).toEqual([431]);
  });

  it.each(['/webhooks/blog', '/', '/healthz'])('is refused with two names of its host: %s', async (path) => {
    const stage = await receiverStage();
    const said = await say(stage.port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n`, 1_000);
    expect(statuses(said)).toEqual([400]);
    expect(statuses(await say(stage.port, 'GET /healthz HTTP/1.0\r\n\r\n'))).toEqual([200]);
  });

  it('F183 such as CONNECT or an upgrade gets nothing but a refusal', async () => {
    const stage = await receiverStage();
    const connect = await say(stage.port, 'CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n', 1_000);
    expect(statuses(connect).filter((status) => status < 400)).toEqual([]);
    const upgrade = `GET /webhooks/blog HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    expect(statuses(await say(stage.port, upgrade))).toEqual([405]);
    expect(statuses(await say(stage.port, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n'))).toEqual([404]);
  });
});
