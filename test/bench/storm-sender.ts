import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';

/**
 * The sender of `storm.ts`, a process of its own. Each delivery is due at its moment, whether or not the earlier ones
 * were answered; what is answered 503 is sent again after the `Retry-After` of the answer. Before that some at a quarter
 * of the rate, for a record of their own, so that both programs are compiled. It begins when it is told to on stdin.
 * Prints what it saw as JSON; the ids with a 2xx go to the file named last.
 */
const [hook = '', secret = '', rate = '0', seconds = '0', records = '', log = ''] = process.argv.slice(2);
const WARM_SECONDS = 5;
const [warmId, ...ids]: string[] = JSON.parse(records);
const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
const { origin, pathname } = new URL(hook);
const pool = new Pool(origin, { connections: 64 });
const perSecond = Number(rate);
const warm = Math.ceil((perSecond / 4) * WARM_SECONDS);
const total = warm + perSecond * Number(seconds);
const acked: string[] = [];
let latencies: number[] = [];
let statuses: Record<number, number> = {};
let unmarked = 0;

async function one(number: number, due: number): Promise<void> {
  const id = `msg_storm_${number}`;
  const body = JSON.stringify({
    type: 'content.updated',
    timestamp: new Date().toISOString(),
    data: { resource: 'content', id: number < warm ? warmId : ids[number % ids.length] },
  });
  const timestamp = Math.floor(Date.now() / 1_000);
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${digest}`,
  };
  for (;;) {
    const answer = await pool.request({ method: 'POST', path: pathname, headers, body });
    await answer.body.dump();
    const { statusCode } = answer;
    statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    if (statusCode < 300) {
      latencies.push(performance.now() - due);
      acked.push(id);
      return;
    }
    const after = answer.headers['retry-after'];
    if (statusCode === 503 && after === undefined) unmarked += 1;
    await delay(Number(after ?? 1) * 1_000);
  }
}

/** From one number up to another; resolves when all are answered with 2xx, with the seconds that it took. */
async function phase(from: number, to: number, perSecond: number): Promise<number> {
  const began = performance.now();
  const sending: Promise<void>[] = [];
  for (let sent = from; sent < to;) {
    const upTo = Math.min(to, from + Math.floor(((performance.now() - began) / 1_000) * perSecond));
    for (; sent < upTo; sent += 1) sending.push(one(sent, began + ((sent - from) * 1_000) / perSecond));
    await delay(1);
  }
  await Promise.all(sending);
  return (performance.now() - began) / 1_000;
}

await phase(0, warm, perSecond / 4);
[statuses, latencies, unmarked] = [{}, [], 0];
process.stdout.write('ready\n');
await new Promise((resolve) => process.stdin.once('data', resolve));
const took = await phase(warm, total, perSecond);
await pool.close();
writeFileSync(log, acked.join('\n'));
// A pipe takes only a part of it at once.
process.stdout.write(`${JSON.stringify({ took, latencies, statuses, unmarked })}\n`, () => process.exit());
