import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';

/**
 * The sender of `acks.ts`, a process of its own: signed deliveries of 1 KB at a steady rate, whether or not the earlier
 * ones were answered; before that some at a quarter of it, so that both programs are compiled. Prints what it saw as
 * JSON; the ids that were answered with a 2xx go to the file named last.
 */
const [url = '', secret = '', rate = '0', seconds = '0', log = ''] = process.argv.slice(2);
const PER_SECOND = Number(rate);
const WARM_SECONDS = 5;
const CONNECTIONS = 128;

const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
const padding = 'x'.repeat(1_024 - 80);
const pool = new Pool(url, { connections: CONNECTIONS, pipelining: 1 });
const acked: string[] = [];

/** Resolves with its status; 0 where there was no answer. */
async function send(phase: string, number: number): Promise<number> {
  const id = `msg_${process.pid}_${phase}_${number}`;
  const body = `{"type":"content.updated","data":{"id":"${number % 1_000}"},"padding":"${padding}"}`;
  const timestamp = Math.floor(Date.now() / 1_000);
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${digest}`,
  };
  const status = await pool
    .request({ path: '/webhooks/bench', method: 'POST', headers, body })
    .then(async (response) => {
      await response.body.dump();
      return response.statusCode;
    })
    .catch(() => 0);
  if (status >= 200 && status < 300) acked.push(id);
  return status;
}

/** So many per second for so long: the latency of each, from when it was due, and the answers by status. */
async function phase(name: string, perSecond: number, seconds: number) {
  const total = perSecond * seconds;
  const latencies = new Float64Array(total);
  const statuses: Record<number, number> = {};
  const answers: Promise<void>[] = [];
  // A receiver that stalls is not spared by a sender that waits for it.
  const one = async (number: number, due: number): Promise<void> => {
    const status = await send(name, number);
    latencies[number] = performance.now() - due;
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  const began = performance.now();
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1_000) * perSecond));
    for (; sent < due; sent += 1) answers.push(one(sent, began + (sent * 1_000) / perSecond));
    await delay(1);
  }
  await Promise.all(answers);
  return { latencies: latencies.toSorted(), statuses, rate: (total * 1_000) / (performance.now() - began) };
}

await phase('warm', Math.ceil(PER_SECOND / 4), WARM_SECONDS);
const { latencies, statuses, rate: reached } = await phase('measured', PER_SECOND, Number(seconds));
await pool.close();
writeFileSync(log, acked.join('\n'));
const at = (part: number): number =>
  latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))] ?? NaN;
console.log(JSON.stringify({ rate: reached, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1), statuses }));
