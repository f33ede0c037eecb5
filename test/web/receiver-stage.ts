import { request as httpRequest } from 'node:http';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { profileSchema, type WebhookProfile } from '../../src/source/profile.ts';
import { signDelivery } from '../../src/trigger/signature/sign-delivery.ts';
import type { DeliveryRow } from '../../src/warehouse/inbox.ts';
import { inboxAddress } from '../../src/warehouse/open-inbox.ts';
import { openReceiver, type OpenReceiver, type ReceiverHost } from '../../src/web/receiver/receiver.ts';
import type { ReceiverNote } from '../../src/web/receiver/messages.ts';
import { RECEIVER_LIMITS, type ReceivedSource, type ReceiverLimits } from '../../src/web/receiver/setup.ts';
import { asOther, tempFolder } from '../support/temp-warehouse.ts';

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Webhooks as a profile's `webhooks` describes them. */
function webhookProfile(webhooks: object = {}): WebhookProfile {
  return profileSchema.parse({ webhooks, resources: { content: { path: '/content', page: { style: 'cursor' } } } })
    .webhooks;
}

export function receivedSource(
  folder: string,
  changes: Partial<ReceivedSource> & { webhooks?: object } = {},
): ReceivedSource {
  const { webhooks, ...own } = changes;
  const webhook = { secrets: [{ value: SECRET }], max_body: 1_048_576, keep: 7 * 86_400_000, attempts: 8 };
  const inbox = inboxAddress(`sqlite:${path.join(folder, 'blog.db')}`);
  return { name: 'blog', inbox, webhook, profile: webhookProfile(webhooks), ...own };
}

/** A request, signed or not, as it is sent. */
export interface Sent {
  method?: string;
  path?: string;
  headers?: Readonly<Record<string, string>>;
  body?: Buffer | string;
}

export interface Answered {
  status: number;
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  body: string;
}

export async function send(port: number, { method = 'POST', path = '/webhooks/blog', headers = {}, body = '' }: Sent) {
  const { promise, resolve, reject } = Promise.withResolvers<Answered>();
  const request = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }),
    );
  });
  request.on('error', reject).end(body);
  return promise;
}

let ids = 0;

/** A delivery as an honest sender signs it; `id` and `at` where they matter. */
export function signed(
  source: ReceivedSource,
  {
    id = `msg_${(ids += 1)}`,
    at = Date.now(),
    body = '{"type":"content.updated","data":{"id":"1"}}',
    path = '/webhooks/blog',
  }: {
    id?: string;
    at?: number;
    body?: Buffer | string;
    path?: string;
  } = {},
): Required<Sent> {
  const [secret] = source.webhook.secrets;
  if (secret === undefined) throw new Error('a source without a secret');
  const publicUrl = source.webhook.public_url ?? null;
  return signDelivery(source.profile.signature, secret, {
    body: Buffer.from(body),
    id,
    at,
    method: 'POST',
    path,
    publicUrl,
  });
}

/** A receiver in the tests' own thread, with what it had to say. */
export interface Stage {
  port: number;
  receiver: OpenReceiver;
  source: ReceivedSource;
  file: string;
  notes: ReceiverNote[];
  arrivals: number[];
  rows(): DeliveryRow[];
}

interface StageOptions {
  clock?: Clock;
  limits?: Partial<ReceiverLimits>;
  source?: Partial<ReceivedSource> & { webhooks?: object };
  host?: Partial<ReceiverHost>;
  folder?: string;
}

/** Closed when the test is over. */
export async function receiverStage(options: StageOptions = {}): Promise<Stage> {
  const { clock = systemClock, limits, folder = tempFolder() } = options;
  const source = receivedSource(folder, options.source);
  const [notes, arrivals]: [ReceiverNote[], number[]] = [[], []];
  const receiver = await openReceiver(
    { host: '127.0.0.1', port: 0, sources: [source], limits: { ...RECEIVER_LIMITS, ...limits } },
    {
      clock,
      page: () => Promise.resolve(null),
      isAlive: () => true,
      arrived: (_, count) => arrivals.push(count),
      note: (note) => notes.push(note),
      ...options.host,
    },
  );
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    await receiver.close();
  };
  onTestFinished(close);
  const file = path.join(folder, 'blog-inbox.db');
  return {
    port: receiver.port,
    receiver: { ...receiver, close },
    source,
    file,
    notes,
    arrivals,
    rows: () => asOther(file, (db) => db.prepare<[], DeliveryRow>('SELECT * FROM _sync_deliveries ORDER BY seq').all()),
  };
}
