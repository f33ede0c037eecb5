import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { countText } from '../../observe/figures.ts';
import { inboxAddress, openInbox, openInboxToRead } from '../../database/databases.ts';
import type { DeliveryRow, Inbox, InboxViewer } from '../../database/inbox.ts';

/** Deliveries that wait again, and those of the names that there are none of. */
export interface Replayed {
  replayed: number;
  unknown: string[];
}

/** By number first: that is what the list shows. */
export async function findDelivery(inbox: Pick<InboxViewer, 'get'>, name: string): Promise<DeliveryRow | null> {
  const byNumber = /^\d{1,15}$/.test(name) ? await inbox.get(Number(name)) : null;
  return byNumber ?? inbox.get(name);
}

/**
 * Makes deliveries of the inbox of a warehouse wait again, by their numbers or the sender's ids; all that are dead for
 * null. Throws `ConfigError('inbox_missing')` if there is no inbox: none is made.
 */
export async function replayDeliveries(
  warehouse: string,
  clock: Clock,
  names: readonly string[] | null,
): Promise<Replayed> {
  await (await openInboxToRead(warehouse, clock)).close();
  const inbox = await openInbox(inboxAddress(warehouse), clock);
  try {
    if (names === null) return { replayed: await inbox.replay('dead'), unknown: [] };
    return await replayNamed(inbox, names);
  } finally {
    await inbox.close();
  }
}

/** Deliveries that are looked at, the newest: the others are due soon anyway. */
const MOST_HURRIED = 5_000;

/** Makes deliveries due now that were put off after a fault; returns how many. */
export async function hurryDeliveries(warehouse: string, clock: Clock, resources: readonly string[]): Promise<number> {
  const inbox = await openInbox(inboxAddress(warehouse), clock);
  try {
    const now = timestampText(clock.now());
    const waiting = await inbox.list({ state: 'waiting', limit: MOST_HURRIED });
    const isPutOff = ({ due_at, resource }: DeliveryRow): boolean =>
      due_at !== null && due_at > now && (resource === null || resources.includes(resource));
    return await inbox.replay(waiting.filter(isPutOff).map(({ seq }) => seq));
  } finally {
    await inbox.close();
  }
}

async function replayNamed(inbox: Inbox, names: readonly string[]): Promise<Replayed> {
  const found = await Promise.all(names.map(async (name) => ({ name, row: await findDelivery(inbox, name) })));
  const numbers = found.flatMap(({ row }) => (row === null ? [] : [row.seq]));
  const unknown = found.filter(({ row }) => row === null).map(({ name }) => name);
  return { replayed: await inbox.replay(numbers), unknown };
}

/** For a person. */
export function replayedText(count: number): string {
  if (count === 0) return 'nothing to replay';
  return `${countText(count)} waiting again; a \`serve\` that runs takes them up within seconds, else the next one does`;
}
