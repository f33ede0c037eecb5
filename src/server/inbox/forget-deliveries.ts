// Erases stored deliveries about records that a user had erased (content-sync forget).
import { timestampText } from '../../model/timestamp-text.ts';
import type { Clock } from '../../model/clock.ts';
import type { DeliveryRow, Inbox, DeliveryUpdate } from '../../database/inbox.ts';
import { type EventRules, readDelivery } from './read-delivery.ts';
import { FORGOTTEN } from './delivery-progress.ts';

export interface ForgottenDeliveries {
  /** Number of erased deliveries that named each record, by its id. */
  erased: Map<string, number>;
  /** Number of waiting deliveries that name other records too: they are erased after these were read. */
  waiting: number;
}

interface ForgetDeliveriesOptions {
  inbox: Inbox;
  rules: EventRules;
  resource: string;
  ids: ReadonlySet<string>;
  /** True to count only. */
  isDry: boolean;
  clock: Clock;
}

const ROWS_PER_PAGE = 100;
/** A shorter id occurs in other bodies by chance. */
const MIN_QUOTED_ID_CHARS = 6;

/** Erases the deliveries that name records as targets, or quote their ids anywhere. */
export async function forgetDeliveries(options: ForgetDeliveriesOptions): Promise<ForgottenDeliveries> {
  const { inbox, isDry, clock } = options;
  const found: ForgottenDeliveries = { erased: new Map(), waiting: 0 };
  const at = timestampText(clock.now());
  for await (const rows of pagesOf(inbox)) {
    const settlements: DeliveryUpdate[] = [];
    for (const row of rows) {
      const { named, isShared } = namedIn(row, options);
      if (named.length === 0) continue;
      if (row.state === 'waiting' && isShared) {
        found.waiting += 1;
        continue;
      }
      for (const id of named) found.erased.set(id, (found.erased.get(id) ?? 0) + 1);
      settlements.push(erasedRow(row, at));
    }
    if (!isDry && settlements.length > 0) await inbox.settle(settlements);
  }
  return found;
}

async function* pagesOf(inbox: Inbox): AsyncIterable<readonly DeliveryRow[]> {
  for (let last = 0; ;) {
    const rows = await inbox.after(last, ROWS_PER_PAGE);
    const end = rows.at(-1);
    if (end === undefined) return;
    yield rows;
    last = end.seq;
  }
}

/** Returns the ids that a delivery names, and whether it is about other records too. */
function namedIn(row: DeliveryRow, options: ForgetDeliveriesOptions): { named: string[]; isShared: boolean } {
  const { resource, ids, rules } = options;
  const content = contentOf(row, rules);
  const isNamed = (target: { resource: string; key: string | null }): boolean =>
    target.resource === resource && target.key !== null && ids.has(target.key);
  const named = new Set(content.filter(isNamed).flatMap(({ key }) => (key === null ? [] : [key])));
  if (row.resource === resource && row.record_id !== null && ids.has(row.record_id)) named.add(row.record_id);
  for (const id of quotedIn(row, ids)) named.add(id);
  return { named: [...named], isShared: content.some((target) => !isNamed(target)) };
}

function contentOf(row: DeliveryRow, rules: EventRules) {
  try {
    const content = readDelivery(row, rules);
    return content.is === 'read' ? content.targets : [];
  } catch {
    return [];
  }
}

function quotedIn({ body, headers }: DeliveryRow, ids: ReadonlySet<string>): string[] {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  return [...ids].filter((id) => {
    if (id.length < MIN_QUOTED_ID_CHARS) return false;
    const quoted = JSON.stringify(id);
    return text.includes(quoted) || headers.includes(quoted);
  });
}

function erasedRow({ seq, state, attempts, finished_at, kind, resource }: DeliveryRow, at: string): DeliveryUpdate {
  const end = { state: state === 'waiting' ? ('done' as const) : state, finished_at: finished_at ?? at, due_at: null };
  return { seq, attempts, kind, resource, ...end, record_id: null, reason: FORGOTTEN, readEvents: null, erases: true };
}
