import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { SQLITE } from '../support/databases.ts';
import { freshSeed, randomFrom } from '../support/random.ts';
import { flood, HALF_MS, malformed, vectorDeliveries } from './receiver-flood.ts';
import { receivedSource, rowsOf, send, signed } from './receiver-stage.ts';

const seed = freshSeed();
const COUNT = 100_000;
const PLAIN = 60_000;
const CONNECTIONS = 64;

it(`G8 100,000 malformed deliveries: none accepted, no crash, memory flat (SEED=${seed})`, async (context) => {
  const deliveries = vectorDeliveries();
  if (deliveries.length === 0) context.skip('the shared webhook vectors are not there');
  const source = receivedSource(await SQLITE.address());
  const { child, ready, ended } = startScript(new URL('receiving.ts', import.meta.url), [JSON.stringify([source])]);
  const port = Number((await ready).trim());
  const random = randomFrom(seed);
  const plan = { connections: CONNECTIONS, patienceMs: HALF_MS };
  await flood(port, { ...plan, count: 10_000 }, () => malformed(deliveries, random));
  const before = residentMegabytes(child.pid);
  const sending = { stop: false, answers: new Map<number, number>() };
  const honest = keepSending(port, source, sending);
  const { statuses } = await flood(port, { ...plan, count: COUNT }, () => malformed(deliveries, random));
  const forged = malformedSignatures(source);
  const began = performance.now();
  const refused = await flood(port, { ...plan, count: PLAIN, patienceMs: 10_000 }, forged);
  const perSecond = (PLAIN * 1_000) / (performance.now() - began);
  sending.stop = true;
  await honest;
  const after = residentMegabytes(child.pid);
  process.stdout.write(
    `malformed: ${JSON.stringify(statuses)}; forged signatures: ${Math.round(perSecond)} refused/s, the sender on the same machine; ` +
      `resident ${before.toFixed(0)} to ${after.toFixed(0)} MB; honest ones: ${JSON.stringify([...sending.answers])}\n`,
  );
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, stderr: '' });
  expect(Object.keys(statuses).filter((status) => Number(status) >= 500 || /^[123]/.test(status))).toEqual([]);
  expect(refused.statuses).toEqual({ 401: PLAIN });
  expect([...sending.answers.keys()]).toEqual([202]);
  expect((await rowsOf(source)).length).toBe(sending.answers.get(202) ?? 0);
  expect(after - before).toBeLessThan(50);
});

/** Whole requests of 1 KB whose signature is of another secret. */
function malformedSignatures(source: ReturnType<typeof receivedSource>): () => Buffer {
  const webhook = { ...source.webhook, secrets: [{ value: `whsec_${Buffer.alloc(32, 9).toString('base64')}` }] };
  const { headers, body, path } = signed(
    { ...source, webhook },
    { body: JSON.stringify({ padding: 'x'.repeat(1_000) }) },
  );
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `content-length: ${Buffer.byteLength(body)}\r\n`;
  const bytes = Buffer.from(`POST ${path} HTTP/1.1\r\nhost: x\r\n${lines.join('')}${length}\r\n${String(body)}`);
  return () => bytes;
}

async function keepSending(
  port: number,
  source: ReturnType<typeof receivedSource>,
  sending: { stop: boolean; answers: Map<number, number> },
): Promise<void> {
  while (!sending.stop) {
    const { status } = await send(port, signed(source));
    sending.answers.set(status, (sending.answers.get(status) ?? 0) + 1);
    await delay(20);
  }
}

function residentMegabytes(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
}
