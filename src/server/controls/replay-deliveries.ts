// Makes stored webhook deliveries due again, for `content-sync deliveries replay` and for controls of `serve`: for example
// dead ones after an operator has fixed the profile, or deferred ones that need not wait any longer.
import { inboxAddress, openInbox, openInboxToRead } from '../../database/databases.ts';
import type { DeliveryRow, Inbox } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { formatNumber } from '../../observe/format-values.ts';

export interface Replayed {
  /** How many deliveries wait again. */
  replayed: number;
  /** The names without a delivery. */
  unknown: string[];
}

/** Finds a delivery by its number, which `deliveries list` shows, or by the sender's id. */
export async function findDelivery(inbox: { get: Inbox['get'] }, name: string): Promise<DeliveryRow | null> {
  const byNumber = /^\d{1,15}$/.test(name) ? await inbox.get(Number(name)) : null;
  return byNumber ?? inbox.get(name);
}

async function withInbox<T>(warehouse: string, clock: Clock, work: (inbox: Inbox) => Promise<T>): Promise<T> {
  const inbox = await openInbox(inboxAddress(warehouse), clock);
  return work(inbox).finally(() => inbox.close());
}

/**
 * Makes deliveries wait again, by their numbers or the sender's ids; all dead ones for null. Throws
 * `ConfigError('warehouse_missing')` if there is no inbox.
 */
export async function replayDeliveries(
  warehouse: string,
  clock: Clock,
  names: readonly string[] | null,
): Promise<Replayed> {
  // Throws a `ConfigError` if there is no inbox, which `openInbox` would create.
  await (await openInboxToRead(warehouse, clock)).close();
  return withInbox(warehouse, clock, async (inbox) => {
    if (names === null) return { replayed: await inbox.replay('dead'), unknown: [] };
    const found = await Promise.all(names.map((name) => findDelivery(inbox, name)));
    const numbers = found.flatMap((row) => row?.seq ?? []);
    const unknown = names.filter((_, index) => found[index] === null);
    return { replayed: await inbox.replay(numbers), unknown };
  });
}

/** At most this many, the newest ones: older deliveries are due soon anyway. */
const MAX_HURRIED = 5_000;

/** Makes deliveries of these resources due now that were deferred after an error; returns how many. */
export function hurryDeliveries(warehouse: string, clock: Clock, resources: readonly string[]): Promise<number> {
  return withInbox(warehouse, clock, async (inbox) => {
    const now = timestampText(clock.now());
    const waiting = await inbox.list({ state: 'waiting', limit: MAX_HURRIED });
    const isDeferred = ({ due_at, resource }: DeliveryRow): boolean =>
      due_at !== null && due_at > now && (resource === null || resources.includes(resource));
    return inbox.replay(waiting.filter(isDeferred).map(({ seq }) => seq));
  });
}

export function replayedText(count: number): string {
  if (count === 0) return 'nothing to replay';
  return `${formatNumber(count)} waiting again; a running \`serve\` processes them within seconds, else the next one does`;
}
