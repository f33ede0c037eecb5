import { portOf } from '../faults/port-of.ts';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { signature } from '../../src/sandbox/webhooks.ts';
import { webhookVectors } from '../support/corpora.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from './service/sandbox.ts';

/** A sandbox that ends with the test. */
async function sandboxFor(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox(options);
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** One request with the API key; `json` becomes a JSON body. */
function ask(sandbox: Sandbox, path: string, init: RequestInit & { json?: unknown } = {}): Promise<Response> {
  const { json, headers, ...rest } = init;
  const body = json === undefined ? {} : { body: JSON.stringify(json) };
  const type = json === undefined ? {} : { 'content-type': 'application/json' };
  const authorization = `Bearer ${sandbox.apiKey}`;
  const all = new Headers({ authorization, ...type });
  for (const [name, value] of new Headers(headers)) all.set(name, value);
  return fetch(new URL(path, sandbox.url), { ...rest, ...body, headers: all, redirect: 'manual' });
}

/** The JSON body of an answer, of the type that the test expects. */
async function bodyOf<T>(answer: Response): Promise<T> {
  const body: T = JSON.parse(await answer.text());
  return body;
}

const vectorsSchema = z.object({
  published: z.tuple(
    [z.object({ secret: z.string(), id: z.string(), timestamp: z.number(), body: z.string(), signature: z.string() })],
    z.unknown(),
  ),
});

interface Delivery {
  headers: IncomingHttpHeaders;
  body: string;
}

/** A receiver that answers with the given statuses one after the other, then with 204. */
async function receiver(statuses: number[] = []) {
  const deliveries: Delivery[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      deliveries.push({ headers: request.headers, body });
      response.writeHead(statuses.shift() ?? 204).end();
    });
  });
  const port = await portOf(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}/hook`, deliveries };
}

async function until(holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 500 && !holds(); turn += 1) await wait(10);
  expect(holds()).toBe(true);
}

describe('webhooks', () => {
  it('tell create, update, publish, unpublish and delete, signed so that a receiver can check them', async () => {
    const sandbox = await sandboxFor();
    const { url, deliveries } = await receiver();
    const made = await ask(sandbox, '/v1/webhooks', { method: 'POST', json: { url, events: ['content.*'] } });
    const { id, secret } = await bodyOf<{ id: string; secret: string }>(made);
    expect([made.status, secret]).toEqual([201, expect.stringMatching(/^whsec_[A-Za-z0-9+/]{32}$/)]);
    await ask(sandbox, '/v1/content', { method: 'POST', json: { id: 'a', status: 'draft' } });
    await ask(sandbox, '/v1/content/a', { method: 'PATCH', json: { status: 'published' } });
    await ask(sandbox, '/v1/content/a', { method: 'PATCH', json: { status: 'archived' } });
    await ask(sandbox, '/v1/content/a', { method: 'DELETE' });
    sandbox.store.put('images', { id: 'not asked for' });
    await until(() => deliveries.length === 6);
    const types = deliveries.map(({ body }) => String(JSON.parse(body).type)).toSorted();
    const kinds = ['created', 'deleted', 'published', 'unpublished', 'updated', 'updated'];
    expect(types).toEqual(kinds.map((kind) => `content.${kind}`));
    for (const { headers, body } of deliveries) {
      const stamp = Number(headers['webhook-timestamp']);
      expect(headers['webhook-signature']).toBe(signature(secret, String(headers['webhook-id']), stamp, body));
      expect(Math.abs(Date.now() / 1_000 - stamp)).toBeLessThan(60);
      expect(JSON.parse(body).data).toMatchObject({ resource: 'content', id: 'a' });
    }
    await until(() => sandbox.deliveries.pending === 0);
    expect(sandbox.deliveries).toEqual({ attempts: 6, delivered: 6, pending: 0 });
    const listed = await (await ask(sandbox, '/v1/webhooks')).text();
    expect(listed).toContain(id);
    expect(listed).not.toContain(secret);
    expect((await ask(sandbox, `/v1/webhooks/${id}`, { method: 'DELETE' })).status).toBe(204);
    expect((await ask(sandbox, `/v1/webhooks/${id}`)).status).toBe(404);
  });

  it('come again under the same id until they are taken, and stop for good where the receiver says 410', async () => {
    const sandbox = await sandboxFor({ webhookRetry: 5 });
    const { url, deliveries } = await receiver([500, 302, 429, 204, 410]);
    await ask(sandbox, '/v1/webhooks', { method: 'POST', json: { url } });
    sandbox.store.put('content', { id: 'a' });
    await until(() => sandbox.deliveries.delivered === 1);
    expect(new Set(deliveries.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    sandbox.store.put('content', { id: 'b' });
    await until(() => deliveries.length === 5 && sandbox.deliveries.pending === 0);
    sandbox.store.put('content', { id: 'c' });
    expect(sandbox.deliveries).toEqual({ attempts: 5, delivered: 1, pending: 0 });
  });

  it('sign like the published vector of Standard Webhooks', () => {
    const { published } = vectorsSchema.parse(webhookVectors());
    const [{ secret, id, timestamp, body, signature: expected }] = published;
    expect(signature(secret, id, timestamp, body)).toBe(expected);
  });
});
