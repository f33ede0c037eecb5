import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { describe, expect, it } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { endsOf, expectWholeCopy, type FaultRow, onStage, reportOf, testFaults } from './stage.ts';
import { portOf } from './port-of.ts';
import { sampled } from '../support/length.ts';

/** Time limits that a silent or dripping service runs into at once. */
const impatient = { profile: { http: { headers_timeout: '800ms', timeout: '1500ms', attempts: 2, concurrency: 4 } } };

const patient = { profile: { http: { headers_timeout: '30s', timeout: '30s', attempts: 3, concurrency: 4 } } };

const RAW: readonly [what: string, text: string, code?: string][] = [
  ['a status that is no number', 'HTTP/1.1 ABC Maybe\r\n\r\n'],
  ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}', 'unreachable'],
  ['a chunk size that is no number', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'],
  ['no HTTP at all', '{"data":[],"next_cursor":null}'],
  ['a header with a NUL', 'HTTP/1.1 200 OK\r\nx-a: \0b\r\ncontent-length: 2\r\n\r\n{}'],
  ['a line feed that folds a header', 'HTTP/1.1 200 OK\r\ncontent-length:\r\n 2\r\nx: y\r\n\r\n{}'],
];

function certificate(name: string): Buffer {
  return readFileSync(new URL(`../http/certificates/${name}.pem`, import.meta.url));
}

describe('the connection to the service fails', () => {
  testFaults([
    {
      title: 'F002 a reset in the body of page 3, always',
      faults: [{ fault: 'reset', page: 3 }],
      ends: 'failed unreachable',
      rows: 8,
    },
    {
      title: 'F002 a reset in the body of page 3, once, after its first byte',
      faults: [{ fault: 'reset', page: 3, nth: 1, after: 1 }],
      ends: 'ok',
      shows: [(_stage, ended) => reportOf(ended).retries, 1],
    },
    {
      title: 'F003 the last page ends before its content-length',
      faults: [{ fault: 'fin', page: 4, after: -2 }],
      ends: 'failed unreachable',
      rows: 12,
    },
    {
      title: 'F004 gzip that is cut off',
      faults: [{ fault: 'truncated-gzip', page: 2 }],
      ends: 'failed bad_encoding',
      rows: 4,
    },
    {
      title: 'F005 silence instead of page 2',
      faults: [{ fault: 'silence', page: 2 }],
      stage: impatient,
      ends: 'failed timeout',
      rows: 4,
    },
    {
      title: 'F006 T9 a body that drips for ever',
      faults: [{ fault: 'drip', page: 2, bytes: 1, ms: 200 }],
      stage: impatient,
      ends: 'failed timeout',
      rows: 4,
    },
    {
      title: 'F008 a body in slices of one byte, characters cut in two',
      faults: [{ fault: 'slice', page: 2 }],
      stage: { ...patient, resource: { page: { size: 1 } } },
      ends: 'ok',
      shows: [(_stage, ended) => reportOf(ended).retries, 0],
    },
    {
      title: 'F009 a connection that is closed after every answer, without a word',
      faults: [{ fault: 'close-after' }],
      ends: 'ok',
      shows: [(_stage, ended) => reportOf(ended).retries, 0],
    },
    {
      title: 'F010 a header of 32 KiB',
      faults: [{ fault: 'huge-headers', page: 2 }],
      ends: 'failed unsupported_encoding',
      rows: 4,
    },
    ...RAW.map(([what, text, code = 'unreachable']): FaultRow => ({
      title: `F011 ${what}`,
      faults: [{ fault: 'raw', page: 2, text }],
      ends: `failed ${code}`,
      rows: 4,
    })),
    {
      title: 'F013 a plain body that says gzip',
      faults: [{ fault: 'fake-gzip', page: 2 }],
      ends: 'failed bad_encoding',
      rows: 4,
    },
    {
      title: 'F014 T8 a gzip bomb of 300 MB',
      faults: [{ fault: 'gzip-bomb', page: 2 }],
      ends: 'failed body_too_large',
      rows: 4,
      shows: [(_stage, ended) => reportOf(ended).bytes < 1_000_000, true],
    },
    {
      title: 'F018 answers that get slower and slower',
      faults: [
        { fault: 'latency', page: 2, ms: 500 },
        { fault: 'latency', page: 3, ms: 3_000 },
        { fault: 'latency', page: 4, ms: 6_000 },
      ],
      ends: 'ok',
      shows: [(_stage, ended) => reportOf(ended).retries, 0],
    },
  ]);

  it.concurrent('F001 a refused connection fails the run, leaves the cursor, and heals by itself', async () => {
    await onStage({}, async (stage) => {
      await stage.backfill();
      const [before] = await stage.query(`SELECT * FROM _sync_checkpoints WHERE resource = 'content'`);
      await stage.sandbox.close();
      const ended = await stage.sync();
      expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed unreachable']));
      expect(ended.code).toBe(1);
      const [after] = await stage.query(`SELECT * FROM _sync_checkpoints WHERE resource = 'content'`);
      expect(after).toEqual(before);

      const { port } = new URL(stage.sandbox.url);
      const back = await startSandbox({ clock: stage.clock, port: Number(port), apiKey: stage.sandbox.apiKey });
      back.store.put('content', { id: 'new', title: 'after the outage', updated_at: '2030-01-01T00:00:00Z' });
      back.store.put('images', { id: 'i' });
      back.store.put('analytics', { id: 'a' });
      const healed = await stage.sync();
      await back.close();
      expect(endsOf(healed)).toEqual({ content: 'ok', images: 'ok', analytics: 'ok' });
      expect(await stage.query(`SELECT title FROM content WHERE id = 'new'`)).toEqual([{ title: 'after the outage' }]);
    });
  });

  it.concurrent('F007 T10 requests that timed out are over: never more open than the concurrency allows', async () => {
    const http = { headers_timeout: '200ms', timeout: '400ms', attempts: 3, concurrency: 2 };
    await onStage({ profile: { http } }, async (stage) => {
      stage.sandbox.faults.add({ fault: 'silence' });
      const ended = await stage.backfill();
      expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed timeout']));
      expect(stage.sandbox.requests.total).toBe(9);
      expect(stage.sandbox.requests.peakInFlight).toBeLessThanOrEqual(2);
      stage.sandbox.faults.clear();
      stage.configure({ profile: {} });
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent.each(sampled(['self-signed', 'expired', 'wrong-host'], 3))(
    'F012 a certificate that is %s',
    async (name) => {
      let [connections, requests] = [0, 0];
      const server = createServer({ key: certificate('key'), cert: certificate(name) }, () => (requests += 1));
      server.on('connection', () => (connections += 1));
      const port = await portOf(server);
      await onStage({ source: { base_url: `https://127.0.0.1:${port}` } }, async (stage) => {
        const ended = await stage.backfill();
        expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed tls']));
        expect(ended.code).toBe(1);
        // One attempt per resource: it does not get better by asking again.
        expect([connections, requests]).toEqual([3, 0]);
        expect(reportOf(ended).error?.hint).toMatch(/certificate/);
      });
      server.close();
      server.closeAllConnections();
    },
  );
});
