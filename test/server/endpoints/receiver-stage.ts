import { onTestFinished } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import type { WebhookProfile } from '../../../src/config/profile/signature-scheme.ts';
import { inboxAddress } from '../../../src/database/databases.ts';
import type { DeliveryRow } from '../../../src/database/inbox.ts';
import type { Clock } from '../../../src/model/clock.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import type { ReceivedSource, ReceiverLimits, ReceiverNote } from '../../../src/server/receiver/setup.ts';
import { type Receiver, type ReceiverOptions, startReceiver } from '../../../src/server/receiver/start-receiver.ts';
import { SQLITE, type TestDatabase } from '../../support/databases.ts';
import { type Answered, rawRequest, type RawRequest } from '../../support/raw-request.ts';
import { signDelivery } from '../../support/sign-delivery.ts';

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

/** Webhooks as a profile's `webhooks` describes them. */
function webhookProfile(webhooks: object = {}): WebhookProfile {
  return profileSchema.parse({ webhooks, resources: { content: { path: '/content', page: { style: 'cursor' } } } })
    .webhooks;
}

/** A source whose inbox lies beside the warehouse at `warehouse`. */
export function receivedSource(
  warehouse: string,
  changes: Partial<ReceivedSource> & { webhooks?: object } = {},
): ReceivedSource {
  const { webhooks, ...own } = changes;
  const webhook = {
    secrets: [{ value: SECRET }],
    max_body: 1_048_576,
    keep: 7 * 86_400_000,
    attempts: 8,
    max_waiting: 1_000_000,
    max_waiting_size: 1_073_741_824,
  };
  return { name: 'blog', inbox: inboxAddress(warehouse), webhook, profile: webhookProfile(webhooks), ...own };
}

/** A request, signed or not, as it is sent. */
export type Sent = Partial<RawRequest>;

export function send(port: number, sent: Sent): Promise<Answered> {
  return rawRequest('127.0.0.1', port, { method: 'POST', path: '/webhooks/blog', headers: {}, body: '', ...sent });
}

/** Lines of deliveries that were refused: tests ask the answers and the figures for them. */
export function isRefusal({ event }: Pick<ReceiverNote, 'event'>): boolean {
  return event.startsWith('delivery_refused');
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

/** A receiver with the notes that it has logged. */
export interface Stage {
  port: number;
  receiver: Receiver;
  source: ReceivedSource;
  /** But for refused deliveries. */
  notes: ReceiverNote[];
  arrivals: number[];
  /** How often each answer was given. */
  results: Readonly<Record<string, number>>;
  rows(): Promise<DeliveryRow[]>;
}

interface StageOptions {
  clock?: Clock;
  limits?: Partial<ReceiverLimits>;
  source?: Partial<ReceivedSource> & { webhooks?: object };
  pages?: ReceiverOptions['pages'];
  /** SQLite where absent. */
  database?: TestDatabase;
}

/** All that stands in an inbox, as another program reads it. */
export function rowsOf({ inbox }: ReceivedSource, database: TestDatabase = SQLITE): Promise<DeliveryRow[]> {
  return database.read(inbox, (db) => db.prepare<[], DeliveryRow>('SELECT * FROM _sync_deliveries ORDER BY seq').all());
}

/** Closed when the test is over. */
export async function receiverStage(options: StageOptions = {}): Promise<Stage> {
  const { clock = systemClock, limits, database = SQLITE } = options;
  const source = receivedSource(await database.address(), options.source);
  const [notes, arrivals]: [ReceiverNote[], number[]] = [[], []];
  const results: Record<string, number> = {};
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [source],
    clock,
    pages: options.pages ?? (async () => new Response(null, { status: 404 })),
    onArrival: (_, count) => arrivals.push(count),
    onAnswer: (_, result) => (results[result] = (results[result] ?? 0) + 1),
    onNote: (note) => isRefusal(note) || notes.push(note),
    ...(limits === undefined ? {} : { limits }),
  });
  onTestFinished(() => receiver.close());
  return {
    port: Number(new URL(receiver.url).port),
    receiver,
    source,
    notes,
    arrivals,
    results,
    rows: () => rowsOf(source, database),
  };
}
