import type { DeliveryState, NewDelivery, DeliveryUpdate } from '../../src/database/inbox.ts';

/** So many seconds into the minute in which all of it happens. */
export function moment(second: number): string {
  return `2026-11-20 08:00:${String(second).padStart(2, '0')}.000`;
}

export function delivery(id: string, changes: Partial<NewDelivery> = {}): NewDelivery {
  const body = Buffer.from(`{"id":"${id}"}`);
  return { delivery_id: id, is_id_sent: true, received_at: moment(0), headers: '{}', body, ...changes };
}

export function settlement(seq: number, state: DeliveryState, changes: Partial<DeliveryUpdate> = {}): DeliveryUpdate {
  const finished_at = state === 'waiting' ? null : moment(30);
  const found = { kind: 'content.updated', resource: 'content', record_id: '1' };
  return { seq, state, attempts: 1, due_at: null, finished_at, reason: null, ...found, readEvents: null, ...changes };
}
