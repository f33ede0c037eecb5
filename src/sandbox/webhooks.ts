// Sends webhooks of the sandbox.
import { createHmac, randomBytes } from 'node:crypto';
import PQueue from 'p-queue';
import { request } from 'undici';
import type { Clock } from '../model/clock.ts';
import type { RecordChange } from './records/store.ts';

interface Subscription {
  id: string;
  url: string;
  /** `content.updated`, `content.*` or `*`. */
  events: readonly string[];
  /** `whsec_` and base64; only shown when the subscription is created. */
  secret: string;
  created_at: string;
}

export type Webhooks = ReturnType<typeof createWebhooks>;

/** The id is the same in every repetition, so that the receiver can recognise duplicates. */
interface WebhookMessage {
  id: string;
  body: string;
}

const MAX_CONCURRENT = 32;
const TIMEOUT_MS = 15_000;
const MAX_RETRY_MS = 60_000;

/** Delivers until a 2xx comes. It retries after `retryMs`, then after twice as long each time; 410 ends the subscription. */
export function createWebhooks(clock: Clock, retryMs: number) {
  const subscriptions = new Map<string, Subscription>();
  /** Deliveries that were not answered with 2xx yet. */
  const counts = { pending: 0 };
  const queue = new PQueue({ concurrency: MAX_CONCURRENT });
  const stop = new AbortController();

  const attempt = async (target: Subscription, message: WebhookMessage): Promise<boolean> => {
    const status = await post(target, message, clock, stop.signal).catch(() => 0);
    if (status === 410) subscriptions.delete(target.id);
    return status >= 200 && status < 300;
  };
  const deliver = async (target: Subscription, message: WebhookMessage): Promise<void> => {
    counts.pending += 1;
    for (let wait = retryMs; subscriptions.has(target.id); wait = Math.min(wait * 2, MAX_RETRY_MS)) {
      if (await queue.add(() => attempt(target, message))) break;
      await clock.sleep(wait, stop.signal);
    }
    counts.pending -= 1;
  };
  return {
    counts,
    subscribe: (
      url: string,
      events: readonly string[],
      secret = `whsec_${randomBytes(24).toString('base64')}`,
    ): Subscription => {
      const created_at = new Date(clock.now()).toISOString();
      const created = { id: `whk_${randomBytes(8).toString('hex')}`, url, events, secret, created_at };
      subscriptions.set(created.id, created);
      return created;
    },
    remove: (id: string): boolean => subscriptions.delete(id),
    /** Sends the change to every subscription of its event. */
    emit: ({ resource, kind, id, time }: RecordChange): void => {
      const data = { resource, id, updated_at: new Date(time).toISOString() };
      const body = { type: `${resource}.${kind}`, timestamp: new Date(clock.now()).toISOString(), data };
      const message = { id: `msg_${randomBytes(12).toString('hex')}`, body: JSON.stringify(body) };
      for (const target of subscriptions.values()) {
        const isWanted = target.events.some((event) => ['*', `${resource}.*`, body.type].includes(event));
        // Only closing the sandbox makes a delivery fail.
        if (isWanted) deliver(target, message).catch(() => undefined);
      }
    },
    close: (): void => {
      subscriptions.clear();
      queue.clear();
      stop.abort();
    },
  };
}

/** Signs by Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body` with the bytes that `whsec_` encodes. */
async function post(target: Subscription, message: WebhookMessage, clock: Clock, signal: AbortSignal): Promise<number> {
  const timestamp = Math.floor(clock.now() / 1_000);
  const key = Buffer.from(target.secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key).update(`${message.id}.${timestamp}.${message.body}`).digest('base64');
  const response = await request(target.url, {
    method: 'POST',
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    headers: {
      'content-type': 'application/json',
      'webhook-id': message.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
    },
    body: message.body,
  });
  await response.body.dump();
  return response.statusCode;
}
