import type { ColumnType } from 'kysely';
import type { TimestampText } from './own-tables.ts';

/**
 * `waiting`: to be worked on. `done`: its records were read again, or there was nothing to do. `ignored`: nothing in it
 * concerns a resource of ours. `dead`: it could not be worked on, and a person should look.
 */
export const DELIVERY_STATES = ['waiting', 'done', 'ignored', 'dead'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** One webhook request that proved to be authentic, as it is stored before it is answered. */
export interface NewDelivery {
  /** The sender's id of it; if it sends none, the hash of its body. */
  delivery_id: string;
  /** False if the id is only the hash of the body: the same body may then be a new event. */
  is_id_sent: boolean;
  received_at: TimestampText;
  /** JSON object of those headers that the profile reads events from. */
  headers: string;
  /** As it came, but for secrets of ours. */
  body: Uint8Array;
  /** The sender's id of it, if another body is stored under that: then `delivery_id` is one of our own making. */
  differs_from?: string;
}

export interface DeliveryRow {
  /** Grows with every delivery. */
  seq: number;
  delivery_id: string;
  /** Of the latest request with this id that had to be worked on. */
  received_at: TimestampText;
  headers: string;
  body: Uint8Array;
  state: DeliveryState;
  attempts: number;
  /** Not before this moment; null for at once. */
  due_at: TimestampText | null;
  finished_at: TimestampText | null;
  /** Why it is dead or ignored, or what went wrong with the last attempt. */
  reason: string | null;
  /** Its content, once it was read; of several events the first. */
  kind: string | null;
  resource: string | null;
  record_id: string | null;
  /** Further requests with the same id. */
  repeats: number;
  /** Events that it stands for: grows whenever it has to be worked on anew, so that none is settled unread. */
  events: number;
  /** Of body and headers, about in bytes; 0 for one that was finished before sizes were written down. */
  size: number;
  /** The sender's id of it, if another body came under that first; else null. */
  differs_from: string | null;
}

/** Columns that the database fills in a delivery that is inserted. */
type FilledColumns = Exclude<
  keyof DeliveryRow,
  'delivery_id' | 'received_at' | 'headers' | 'body' | 'size' | 'differs_from'
>;

/** The tables of an inbox, made by `migrations/inbox/`. */
export interface InboxTables {
  _sync_deliveries: Omit<DeliveryRow, FilledColumns> & {
    [Column in FilledColumns]: ColumnType<DeliveryRow[Column], never, DeliveryRow[Column]>;
  };
}

/** The columns that a settlement changes. */
type SettledColumns = Pick<
  DeliveryRow,
  'seq' | 'state' | 'attempts' | 'due_at' | 'finished_at' | 'reason' | 'kind' | 'resource' | 'record_id'
>;

/** The state of a delivery after an attempt: its last one, or `waiting` for another attempt. */
export interface Settlement extends SettledColumns {
  /** `events` of the row as it was first read for this: one that has come again since waits on. Null if that does not matter. */
  readEvents: number | null;
  /** True if its body, its headers and its ids go with it: it named a record that was erased. */
  erases?: true;
}

/** One entry of a transaction; they are written in order. */
export type InboxEntry = { delivery: NewDelivery } | { settlement: Settlement };

/**
 * What an entry came to. `new`: it stands there now. `different`: so it does, beside another one that came under the
 * same id with another body. `repeat`: it stood there, and was counted. `again`: it stood there as finished and waits
 * again. `settled`. `overtaken`: it came again before it was settled, and waits on.
 */
const INBOX_EFFECTS = ['new', 'different', 'repeat', 'again', 'settled', 'overtaken'] as const;
export type InboxEffect = (typeof INBOX_EFFECTS)[number];

/** Effects that leave a delivery waiting that no drain may know of yet. */
export const TO_WORK_ON: ReadonlySet<InboxEffect> = new Set(['new', 'different', 'again', 'overtaken']);

/** For a list that a person reads: the newest first. */
interface DeliveryFilter {
  state?: DeliveryState;
  limit: number;
}

/** Figures of an inbox for status and metrics. */
export interface InboxFigures {
  waiting: number;
  /** Bodies and headers of those that wait. */
  waitingBytes: number;
  dead: number;
  /** Deliveries that came under the id of another one, with another body. */
  different: number;
  /** When the oldest that waits was received. */
  oldest: TimestampText | null;
}

/** The inbox of a source. All methods throw `SyncError`. */
export interface Inbox {
  /** Deliveries that wait and are due at `now`, those behind `after` only, in the order in which they came. */
  waiting(after: number, now: TimestampText, limit: number): Promise<DeliveryRow[]>;
  /** Gives deliveries their state after an attempt; durable once this resolves. The caller tries again. */
  settle(settlements: readonly Settlement[]): Promise<void>;
  /**
   * One durable transaction: once it resolves, a power cut takes nothing of it. A single attempt: throws
   * `warehouse_busy` soon if another program holds the lock, `warehouse_full` if the disk is, `warehouse_unreachable` if
   * the server is away, `warehouse_gone` if the file has lost its name; entries under way then may be stored, and their
   * repeats count as such.
   */
  write(entries: readonly InboxEntry[]): Promise<InboxEffect[]>;
  /** Removes finished deliveries from before a moment, dead ones from before another; returns how many went. */
  purge(before: { finished: TimestampText; dead: TimestampText }, limit: number): Promise<number>;
  figures(): Promise<InboxFigures>;
  list(filter: DeliveryFilter): Promise<DeliveryRow[]>;
  /** By number, or by the sender's id; null if there is none. */
  get(delivery: number | string): Promise<DeliveryRow | null>;
  /** Makes these deliveries, or all dead ones, wait again from the start; returns how many. */
  replay(deliveries: readonly number[] | 'dead'): Promise<number>;
  /** Deliveries in the order of their numbers, those behind `seq` only. */
  after(seq: number, limit: number): Promise<DeliveryRow[]>;
  /** Takes what was deleted out of free space and log. Returns false while a reader still needs the log. */
  clean(): Promise<boolean>;
  close(): Promise<void>;
}
