import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { webhooksCommand } from '../../src/cli/webhooks.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { Delivery, SignatureVerdict } from '../../src/server/signature/delivery.ts';
import { createVerifier } from '../../src/server/signature/create-verifier.ts';
import { portOf } from '../faults/port-of.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const SECRET = `whsec_${Buffer.from('a secret that is long enough').toString('base64')}`;
const OLD = `whsec_${Buffer.from('a secret that was used before').toString('base64')}`;
const BODY = '{"type":"content.updated",\n "data":{"resource":"content","id":"a1"}}\n';

interface Received {
  delivery: Delivery;
  verdict: SignatureVerdict;
}

/** A server that judges what it gets by the journey's own settings, and answers with `status`. */
async function receiver(stage: Journey, status: number): Promise<{ url: string; received: Received[] }> {
  const [source] = Object.values(loadSettings({ path: stage.config, env: {}, cwd: stage.folder }).sources);
  if (source?.webhook === null || source === undefined) throw new Error('the source receives no webhooks');
  const { secrets, public_url = null } = source.webhook;
  const verify = createVerifier(source.profile.webhooks.signature, secrets, public_url);
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headersDistinct: headers } = request;
    const delivery = { method, path: url, headers, body: await buffer(request) };
    received.push({ delivery, verdict: verify(delivery, Date.now()) });
    response.writeHead(status).end();
  });
  onTestFinished(() => void server.close());
  const port = await portOf(server);
  return { url: `http://127.0.0.1:${port}/webhooks/blog`, received };
}

async function stageFor(webhooks: object = {}, webhook: object = {}): Promise<Journey> {
  const stage = await journey({
    profile: { webhooks },
    source: { webhook: { secrets: [{ value: OLD, until: '2020-01-01T00:00:00Z' }, SECRET], ...webhook } },
  });
  writeFileSync(path.join(stage.folder, 'event.json'), BODY);
  return stage;
}

function send(stage: Journey, ...args: string[]): Promise<{ code: number; stdout: string }> {
  return runInProcess(webhooksCommand, ['send', ...args, '--config', stage.config], stage.folder);
}

describe('content-sync webhooks send', () => {
  it.each<[string, object, object]>([
    ['the default scheme', {}, {}],
    ['GitHub', { signature: 'github' }, { secrets: ['It is a secret'] }],
    ['Stripe', { signature: 'stripe' }, { secrets: ['whsec_stripe'] }],
  ])('signs as the service would: %s', async (_, webhooks, webhook) => {
    const stage = await stageFor(webhooks, webhook);
    const { url, received } = await receiver(stage, 202);
    const ended = await send(stage, 'event.json', '--url', url);
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('  202  stored; ') });
    expect(received).toMatchObject([{ verdict: { ok: true }, delivery: { method: 'POST', path: '/webhooks/blog' } }]);
    expect(received[0]?.delivery.body.toString()).toBe(BODY);
  });

  it('sends the id and the headers that are asked for', async () => {
    const stage = await stageFor();
    const { url, received } = await receiver(stage, 202);
    const { stdout } = await send(
      stage,
      'event.json',
      '--url',
      `${url}?a=b`,
      '--id',
      'msg_7',
      '--header',
      'X-Topic: a b',
      '--header',
      'x-other:',
    );
    expect(stdout).toMatch(/^msg_7 {2}202/);
    expect(received[0]?.verdict).toMatchObject({ ok: true, deliveryId: 'msg_7' });
    expect(received[0]?.delivery).toMatchObject({
      path: '/webhooks/blog?a=b',
      headers: { 'x-topic': ['a b'], 'x-other': [''], 'content-type': ['application/json'] },
    });
  });

  it.each([
    [401, 'was not accepted'],
    [503, 'could not be stored'],
    [500, 'not a response of a content-sync receiver'],
  ])('ends with exit code 1 for %i, and says what it means', async (status, meaning) => {
    const stage = await stageFor();
    const { url } = await receiver(stage, status);
    expect(await send(stage, 'event.json', '--url', url)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(meaning),
    });
  });

  it.each<[string, string[], object, string]>([
    ['a file that is not there', ['nowhere.json'], {}, 'cannot read nowhere.json'],
    ['an address that is none', ['event.json', '--url', 'nonsense'], {}, '--url must be an http(s) URL'],
    ['a header that is none', ['event.json', '--header', 'nonsense'], {}, '--header must be <name>:<value>'],
    ['a source that is not there', ['event.json', '--source', 'shop'], {}, 'the config has no source "shop"'],
    [
      'secrets that have all ended',
      ['event.json'],
      { secrets: [{ value: OLD, until: '2020-01-01T00:00:00Z' }] },
      'no secret of source blog',
    ],
    [
      'a receiver that is not there',
      ['event.json', '--url', 'http://127.0.0.1:1/webhooks/blog'],
      {},
      'no response from http://127.0.0.1:1/webhooks/blog',
    ],
  ])('refuses %s', async (_, args, webhook, message) => {
    const stage = await stageFor({}, webhook);
    await expect(send(stage, ...args)).rejects.toThrow(message);
  });
});
