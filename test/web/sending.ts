import { setTimeout as delay } from 'node:timers/promises';
import { signDelivery } from '../../src/trigger/signature/sign-delivery.ts';

/**
 * Sends so many signed deliveries, one after the other, and says how each was answered and how the receiver says that it
 * is. First it says that it begins.
 */
const [port = '', count = '0', source = ''] = process.argv.slice(2);
const { profile, webhook } = JSON.parse(source);
const url = `http://127.0.0.1:${port}`;
console.log('begins');
for (let number = 0; number < Number(count); number += 1) {
  const id = `msg_${process.pid}_${number}`;
  const draft = {
    body: Buffer.from('{}'),
    id,
    at: Date.now(),
    method: 'POST',
    path: '/webhooks/blog',
    publicUrl: null,
  };
  const { headers, body } = signDelivery(profile.signature, webhook.secrets[0], draft);
  const began = performance.now();
  const { status } = await fetch(`${url}/webhooks/blog`, { method: 'POST', headers, body: new Uint8Array(body) });
  const ms = performance.now() - began;
  const { status: health } = await fetch(`${url}/healthz`);
  console.log(JSON.stringify({ status, ms, health }));
  await delay(40);
}
