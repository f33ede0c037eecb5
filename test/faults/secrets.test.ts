import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { expectWholeCopy, onStage, reportOf, useOauth, type Stage } from './stage.ts';
import { sampled } from '../support/length.ts';

/** All bytes of all files that a stage's commands have written, and all that they have printed. */
function everything(stage: Stage): string {
  const ours = new Set(['config.yaml', 'profile.yaml']);
  const files = readdirSync(stage.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !ours.has(entry.name))
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)).toString('latin1'));
  return [...files, stage.written()].join('\n');
}

/** Forms in which a secret may have been written. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const inner = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), bytes.toString('hex'), ...inner];
}

/** What the service can do with a secret that it was sent: give it back in places from where it might be written. */
const CHANNELS: readonly [what: string, fault: (secret: string) => FaultScript][] = [
  ['the body of a refusal', (secret) => ({ fault: 'status', status: 400, body: `{"title":"bad key ${secret}"}` })],
  [
    'the body of a refusal, in base64',
    (secret) => ({ fault: 'status', status: 403, body: Buffer.from(`x:${secret}`).toString('base64') }),
  ],
  [
    'the body of a failure, escaped',
    (secret) => ({ fault: 'status', status: 500, body: `key=${encodeURIComponent(secret)}&x=1` }),
  ],
  ['the request id', (secret) => ({ fault: 'status', status: 400, headers: { 'x-request-id': `for-${secret}` } })],
  [
    'the challenge of a 401',
    (secret) => ({ fault: 'status', status: 401, headers: { 'www-authenticate': `Bearer realm="${secret}"` } }),
  ],
  ['a web page', (secret) => ({ fault: 'body', text: `<html><body>Hello ${secret}</body></html>`, type: 'text/html' })],
  ['a text that is no JSON', (secret) => ({ fault: 'body', text: `{"data":[], oops ${secret}` })],
  ['a text that is no JSON, cut in the secret', (secret) => ({ fault: 'body', text: `{"data":["${secret}` })],
  [
    'a body without records',
    (secret) => ({ fault: 'body', text: JSON.stringify({ [secret]: secret, error: secret }) }),
  ],
  ['the names of its fields', (secret) => ({ fault: 'body', text: JSON.stringify({ [secret]: 1 }) })],
  [
    'a cursor that is no cursor',
    (secret) => ({ fault: 'field', name: 'next_cursor', value: JSON.stringify({ key: secret }) }),
  ],
  ['a redirect', (secret) => ({ fault: 'redirect', to: `http://other.invalid/?key=${encodeURIComponent(secret)}` })],
  ['the header of a limit', (secret) => ({ fault: 'header', headers: { 'retry-after': secret, ratelimit: secret } })],
  ['malformed HTTP', (secret) => ({ fault: 'raw', text: `HTTP/1.1 200 OK\r\n${secret}\r\n\r\n` })],
];

const KEY = 'canary/key+0815=xy';

describe('F211 secrets stay where they are', () => {
  it.concurrent.each(sampled(CHANNELS, 4))(
    'F211 an API key that comes back in %s is written nowhere',
    async (_what, fault) => {
      await onStage({ logLevel: 'trace', sandbox: { apiKey: KEY } }, async (stage) => {
        await stage.backfill();
        stage.sandbox.faults.add(fault(KEY));
        await stage.backfill();
        await stage.sync();
        await stage.check();
        expect(stage.written()).toMatch(/"msg":"request"/);
        const written = everything(stage);
        for (const form of formsOf(KEY)) expect(written.includes(form)).toBe(false);
      });
    },
  );

  it.concurrent.each(sampled(CHANNELS, 7, 1))(
    'F211 a client secret and a token that come back in %s are written nowhere',
    async (_what, fault) => {
      const clientSecret = 'canary-client/secret+4711';
      await onStage({ logLevel: 'trace', sandbox: { clientSecret } }, async (stage) => {
        useOauth(stage);
        await stage.backfill();
        stage.sandbox.faults.add({ ...fault(clientSecret), resource: 'oauth' });
        const failed = await stage.backfill();
        stage.sandbox.faults.clear();
        stage.sandbox.faults.add({ ...fault(clientSecret), resource: 'content' });
        await stage.backfill();
        expect(failed.report.resources).toHaveLength(3);
        const written = everything(stage);
        for (const form of formsOf(clientSecret)) expect(written.includes(form)).toBe(false);
        expect(written).not.toMatch(/at_[\w-]{20}/);
      });
    },
  );

  it.concurrent('F211 a header of the profile that holds a secret is written nowhere', async () => {
    const headers = { 'X-Api-Key': '${CANARY_HEADER:-canary-header-secret-0815}' };
    await onStage({ logLevel: 'trace', profile: { headers } }, async (stage) => {
      stage.sandbox.faults.add({ fault: 'status', status: 400, body: '{"title":"no canary-header-secret-0815 here"}' });
      expect((await stage.backfill()).code).toBe(1);
      expect(everything(stage)).not.toContain('canary-header-secret-0815');
    });
  });

  it.concurrent('F211 a secret that the service writes into the next link is not stored with the position', async () => {
    const byUrl = { pagination: 'next-url', apiKey: KEY } as const;
    const options = { logLevel: 'trace', sandbox: byUrl, resource: { page: { style: 'next-url', size: 4 } } };
    await onStage(options, async (stage) => {
      const { faults } = stage.sandbox;
      faults.add({ fault: 'foreign-next', to: `{path}&api_key=${encodeURIComponent(KEY)}` });
      faults.add({ fault: 'status', status: 500, page: 3 });
      expect((await stage.backfill()).code).toBe(3);
      const written = everything(stage);
      for (const form of formsOf(KEY)) expect(written.includes(form)).toBe(false);
      faults.clear();
      expect((await stage.backfill()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F211 a secret among the query parameters of the profile is not stored, and the walk still resumes', async () => {
    const canary = 'canary-query/secret 0815';
    const resource = { page: { size: 4 }, query: { api_key: `\${CANARY_QUERY:-${canary}}`, lang: 'en' } };
    await onStage({ logLevel: 'trace', resource }, async (stage) => {
      stage.sandbox.faults.add({ fault: 'reset', page: 3, resource: 'content' });
      expect((await stage.backfill()).code).toBe(3);
      expect(await stage.query(`SELECT walk_pages FROM _sync_checkpoints WHERE resource = 'content'`)).toEqual([
        { walk_pages: 2 },
      ]);
      const written = everything(stage);
      for (const form of [...formsOf(canary), 'canary-query%2Fsecret+0815']) expect(written.includes(form)).toBe(false);
      stage.sandbox.faults.clear();
      stage.sandbox.requests.clear();
      expect(reportOf(await stage.backfill())).toMatchObject({ status: 'ok', pages: 2, inserted: 8, unchanged: 0 });
      for (const { path: asked } of stage.sandbox.requests.entries()) {
        const { searchParams } = new URL(asked, stage.sandbox.url);
        expect([searchParams.getAll('api_key'), searchParams.getAll('lang')]).toEqual([[canary], ['en']]);
      }
      await expectWholeCopy(stage);
    });
  });

  it.concurrent('F211 F155 settings that cannot be used are refused at once, without the secret in them', async () => {
    await onStage(
      { logLevel: 'trace', source: { auth: { type: 'api_key', key: 'canary with spaces 0815' } } },
      async (stage) => {
        const ended = await stage.backfill();
        expect([ended.code, stage.sandbox.requests.total]).toEqual([2, 0]);
        expect(ended.stderr).toMatch(/auth\.key/);
        expect(stage.written()).not.toContain('canary');
      },
    );
  });
});
