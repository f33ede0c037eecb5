import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { signDelivery } from '../../support/sign-delivery.ts';
import { startReceiver } from '../../../src/server/receiver/start-receiver.ts';

/**
 * Sends deliveries to a receiver whose inbox lies in the folder named first until it refuses one, makes room, and sends
 * the refused one and so many in all again. Prints what happened as JSON.
 */
const [folder = '', ballastBytes = '0', again = '0', given = ''] = process.argv.slice(2);
const ballast = path.join(folder, 'ballast');
writeFileSync(ballast, Buffer.alloc(Number(ballastBytes)));
const file = path.join(folder, 'blog-inbox.db');
const source = { ...JSON.parse(given), inbox: `sqlite:${file}` };
const notes: string[] = [];
const receiver = await startReceiver({
  serve: { host: '127.0.0.1', port: 0 },
  sources: [source],
  clock: systemClock,
  pages: async () => new Response(null, { status: 404 }),
  onArrival: () => undefined,
  onAnswer: () => undefined,
  onNote: ({ event }) => void (event.startsWith('delivery_refused') || notes.push(event)),
});

const acked: string[] = [];
const refused: { status: number; seconds: number }[] = [];
let sent = 0;
while (refused.length === 0 && sent < 2_000) await send((sent += 1));
const health = (await fetch(`${receiver.url}/healthz`)).status;
await send(sent);
rmSync(ballast);
for (let number = 0; number < Number(again); number += 1) await send(sent + number);
await receiver.close();
const db = new Database(file);
const stored = new Set(db.prepare<[], string>('SELECT delivery_id FROM _sync_deliveries').pluck().all());
const integrity: unknown = db.pragma('integrity_check', { simple: true });
const lost = acked.filter((id) => !stored.has(id));
console.log(
  JSON.stringify({ sent, acked: acked.length, stored: stored.size, lost, refused, health, notes, integrity }),
);

async function send(number: number): Promise<void> {
  const id = `msg_${number}`;
  const draft = { id, at: Date.now(), method: 'POST', path: '/webhooks/blog', publicUrl: null };
  const signed = signDelivery(source.profile.signature, source.webhook.secrets[0], {
    ...draft,
    body: Buffer.from(JSON.stringify({ padding: 'x'.repeat(30_000) })),
  });
  const began = performance.now();
  const init = { method: 'POST', headers: signed.headers, body: new Uint8Array(signed.body) };
  const { status } = await fetch(`${receiver.url}/webhooks/blog`, init);
  if (status === 202) acked.push(id);
  else refused.push({ status, seconds: (performance.now() - began) / 1_000 });
}
