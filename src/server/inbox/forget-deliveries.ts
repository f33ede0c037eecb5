// Erases the stored webhook deliveries that name a record which a user erases (`content-sync forget`): their bodies may
// hold the record. A waiting delivery that also names other records stays until those are read; then the inbox worker
// erases it.
import { timestampText } from '../../model/timestamp-text.ts';
import type { Clock } from '../../model/clock.ts';
import type { DeliveryRow, Inbox, DeliveryUpdate } from '../../database/inbox.ts';
import { type EventRules, readDelivery } from './read-delivery.ts';
import { FORGOTTEN } from './delivery-progress.ts';

export interface ForgottenDeliveries {
  /** The number of erased deliveries that named each record, by its id. */
  erased: Map<string, number>;
  /** The number of waiting deliveries that also name other records. */
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
/** A shorter id occurs in the bodies of other records by chance. */
const MIN_QUOTED_ID_CHARS = 6;

/** Erases the deliveries that name these records as targets, or have their ids anywhere as a JSON string. */
export async function forgetDeliveries(options: ForgetDeliveriesOptions): Promise<ForgottenDeliveries> {
  const { inbox, isDry, clock } = options;
  const counts: ForgottenDeliveries = { erased: new Map(), waiting: 0 };
  const at = timestampText(clock.now());
  for await (const rows of readPages(inbox)) {
    const updates: DeliveryUpdate[] = [];
    for (const row of rows) {
      const { namedIds, namesOthers } = findNamedIds(row, options);
      if (namedIds.size === 0) continue;
      if (row.state === 'waiting' && namesOthers) {
        counts.waiting += 1;
        continue;
      }
      for (const id of namedIds) counts.erased.set(id, (counts.erased.get(id) ?? 0) + 1);
      updates.push(erasedRow(row, at));
    }
    if (!isDry && updates.length > 0) await inbox.settle(updates);
  }
  return counts;
}

async function* readPages(inbox: Inbox): AsyncIterable<readonly DeliveryRow[]> {
  for (let last = 0; ;) {
    const rows = await inbox.after(last, ROWS_PER_PAGE);
    const end = rows.at(-1);
    if (end === undefined) return;
    yield rows;
    last = end.seq;
  }
}

/** Returns which of the ids a delivery names, and whether it also names other records. */
function findNamedIds(row: DeliveryRow, { resource, ids, rules }: ForgetDeliveriesOptions) {
  const rowId = row.resource === resource ? row.record_id : null;
  const targetIds = readTargets(row, rules).map((target) => (target.resource === resource ? target.key : null));
  const found = [rowId, ...targetIds].filter((id) => id !== null).filter((id) => ids.has(id));
  const namedIds = new Set([...found, ...findQuotedIds(row, ids)]);
  return { namedIds, namesOthers: targetIds.some((id) => id === null || !ids.has(id)) };
}

function readTargets(row: DeliveryRow, rules: EventRules) {
  try {
    const content = readDelivery(row, rules);
    return content.is === 'read' ? content.targets : [];
  } catch {
    return [];
  }
}

function findQuotedIds({ body, headers }: DeliveryRow, ids: ReadonlySet<string>): string[] {
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
