import type { Kysely } from 'kysely';
import type { DeliveryRow, Inbox, InboxTables } from './inbox.ts';
import type { Warehouse } from './warehouse.ts';

/** What commands may ask that only read. Nothing is made, changed or brought up to date for them. */
export interface WarehouseReader extends Pick<Warehouse, 'own' | 'count' | 'countDeleted' | 'close'> {
  /** False if this user, or this role, may read it and not write. */
  isWritable(): Promise<boolean>;
  /** Version of the server and the role that reads, for people; null for a file. */
  server(): Promise<string | null>;
}

/** The same of an inbox. */
export type InboxViewer = Pick<Inbox, 'list' | 'get' | 'close'>;

/** Asks by single statements, which are alike on all databases. */
export function inboxViewer(own: Kysely<InboxTables>, close: () => Promise<void>): InboxViewer {
  const all = own.selectFrom('_sync_deliveries').selectAll();
  return {
    list: ({ state, limit }) => {
      const rows = all.orderBy('seq', 'desc').limit(limit);
      return (state === undefined ? rows : rows.where('state', '=', state)).execute();
    },
    get: async (delivery): Promise<DeliveryRow | null> => {
      const one =
        typeof delivery === 'number' ? all.where('seq', '=', delivery) : all.where('delivery_id', '=', delivery);
      return (await one.executeTakeFirst()) ?? null;
    },
    close,
  };
}
