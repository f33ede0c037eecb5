import { createHmac, randomBytes } from 'node:crypto';
import PQueue from 'p-queue';
import { request } from 'undici';
import type { Clock } from '../model/clock.ts';
import type { RecordChange } from './records/store.ts';

export interface Subscription {
  id: string;
  url: string;
  /** `content.updated`, `content.*` or `*`. */
  events: readonly string[];
  /** `whsec_` and base64; only shown when the subscription is made. */
  secret: string;
  created_at: string;
}

/** Counters over all subscriptions. */
export interface DeliveryCounts {
  /** Not yet answered with 2xx. */
  pending: number;
}

export type Webhooks = ReturnType<typeof webhooks>;

interface Message {
  id: string;
  body: string;
}

const AT_ONCE = 32;
const TIMEOUT_MS = 15_000;
const LONGEST_WAIT_MS = 60_000;

/** The signature of Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`, keyed with what `whsec_` encodes. */
function signature(secret: string, id: string, timestamp: number, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}

/** Delivers until a 2xx comes: repeats after `retryMs`, then after twice as long each time; 410 ends it for good. */
export function webhooks(clock: Clock, retryMs: number) {
  const subscriptions = new Map<string, Subscription>();
  const counts: DeliveryCounts = { pending: 0 };
  const queue = new PQueue({ concurrency: AT_ONCE });
  const stop = new AbortController();

  const attempt = async (target: Subscription, message: Message): Promise<boolean> => {
    const status = await post(target, message, clock, stop.signal).catch(() => 0);
    if (status === 410) subscriptions.delete(target.id);
    return status >= 200 && status < 300;
  };
  const deliver = async (target: Subscription, message: Message): Promise<void> => {
    counts.pending += 1;
    for (let wait = retryMs; subscriptions.has(target.id); wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
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
      const made = { id: `whk_${randomBytes(8).toString('hex')}`, url, events, secret, created_at };
      subscriptions.set(made.id, made);
      return made;
    },
    list: (): Subscription[] => [...subscriptions.values()],
    remove: (id: string): boolean => subscriptions.delete(id),
    /** Sends the change to every subscription that wants it. */
    emit: (change: RecordChange): void => {
      const message = messageOf(change, clock);
      for (const target of subscriptions.values()) {
        // Only closing the sandbox ends a delivery early.
        if (wants(target, change)) deliver(target, message).catch(() => undefined);
      }
    },
    close: (): void => {
      subscriptions.clear();
      queue.clear();
      stop.abort();
    },
  };
}

/** One id per event, the same in every repetition: the receiver's key against duplicates. */
function messageOf(change: RecordChange, clock: Clock): Message {
  const { resource, kind, id, time } = change;
  const data = { resource, id, updated_at: new Date(time).toISOString() };
  const body = { type: `${resource}.${kind}`, timestamp: new Date(clock.now()).toISOString(), data };
  return { id: `msg_${randomBytes(12).toString('hex')}`, body: JSON.stringify(body) };
}

function wants(target: Subscription, change: RecordChange): boolean {
  const names = new Set(['*', `${change.resource}.*`, `${change.resource}.${change.kind}`]);
  return target.events.some((event) => names.has(event));
}

async function post(target: Subscription, message: Message, clock: Clock, signal: AbortSignal): Promise<number> {
  const timestamp = Math.floor(clock.now() / 1_000);
  const answer = await request(target.url, {
    method: 'POST',
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    headers: {
      'content-type': 'application/json',
      'webhook-id': message.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signature(target.secret, message.id, timestamp, message.body),
    },
    body: message.body,
  });
  await answer.body.dump();
  return answer.statusCode;
}
