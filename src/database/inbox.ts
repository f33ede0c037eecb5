// The inbox of webhook deliveries: its table, and the statements that both databases share.
import { createHash } from 'node:crypto';
import { type CompiledQuery, type Generated, type Kysely, type Selectable, sql } from 'kysely';
import type { TimestampText } from './own-tables.ts';
import { inParts } from './state/in-parts.ts';

/**
 * `waiting`: to be processed. `done`: its records were fetched, or there was nothing to do. `ignored`: it concerns no
 * resource of the profile. `dead`: it could not be processed, and an operator should look at it.
 */
export const DELIVERY_STATES = ['waiting', 'done', 'ignored', 'dead'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** One authentic webhook request, as it is stored before it is acknowledged. */
export interface NewDelivery {
  /** The sender's id; if there is none, the hash of the body. */
  delivery_id: string;
  /** False if the id is the hash of the body: the same body may then be a new event. */
  is_id_sent: boolean;
  received_at: TimestampText;
  /** JSON object of those headers that the profile reads events from. */
  headers: string;
  /** The request's body, without our secrets. */
  body: Uint8Array;
  /** The sender's id, if another body is stored under that: then `delivery_id` is our own. */
  differs_from?: string;
}

/** A row of the inbox; the database fills the generated columns of a delivery that is inserted. */
interface DeliveryTable {
  /** Grows with every delivery. */
  seq: Generated<number>;
  delivery_id: string;
  /** Of the latest request with this id that had to be processed. */
  received_at: TimestampText;
  headers: string;
  body: Uint8Array;
  state: Generated<DeliveryState>;
  /** Attempts to process it. */
  attempts: Generated<number>;
  /** Null for at once. */
  due_at: Generated<TimestampText | null>;
  finished_at: Generated<TimestampText | null>;
  /** Why it is dead or ignored, or the error of the last attempt. */
  reason: Generated<string | null>;
  /** Its first event, once it was read. */
  kind: Generated<string | null>;
  resource: Generated<string | null>;
  record_id: Generated<string | null>;
  /** Further requests with the same id. */
  repeats: Generated<number>;
  /** Number of merged events; incremented when the delivery must be processed again. */
  events: Generated<number>;
  /** Approximate bytes of body and headers; 0 for deliveries that early versions finished. */
  size: number;
  /** The sender's id, if another body had arrived under it; else null. */
  differs_from: string | null;
}

export type DeliveryRow = Selectable<DeliveryTable>;

/** The tables of an inbox, created by `migrations/inbox/`. */
export interface InboxTables {
  _sync_deliveries: DeliveryTable;
}

/** The state of a delivery after an attempt: final, or `waiting` for another attempt. */
export interface DeliveryUpdate extends Pick<
  DeliveryRow,
  'seq' | 'state' | 'attempts' | 'due_at' | 'finished_at' | 'reason' | 'kind' | 'resource' | 'record_id'
> {
  /** `events` of the row when it was read: if a repeat has arrived since, the row keeps waiting. Null for any. */
  readEvents: number | null;
  /** True to erase its body, headers and ids as well: it named a record that was erased. */
  erases?: true;
}

/**
 * The effect of a written request. `new`: inserted. `different`: inserted although a delivery has the same id and another body.
 * `repeat`: counted. `again`: a finished delivery waits again.
 */
export type InboxEffect = 'new' | 'different' | 'repeat' | 'again';

/** True if the effect leaves a waiting delivery that no drain may know of yet. */
export function isArrival(effect: InboxEffect): boolean {
  return effect !== 'repeat';
}

/** Counters of an inbox for status and metrics. */
export interface InboxCounters {
  waiting: number;
  /** Bodies and headers of waiting deliveries. */
  waitingBytes: number;
  dead: number;
  /** Deliveries that arrived under the id of another one, with another body. */
  different: number;
  /** When the oldest waiting delivery was received. */
  oldest: TimestampText | null;
}

/** Queries of commands that only read an inbox. */
export interface InboxViewer {
  /** The newest deliveries first. */
  list(filter: { state?: DeliveryState; limit: number }): Promise<DeliveryRow[]>;
  /** By number, or by the sender's id; null if there is none. */
  get(delivery: number | string): Promise<DeliveryRow | null>;
  /** Deliveries in the order of their numbers, those after `seq` only. */
  after(seq: number, limit: number): Promise<DeliveryRow[]>;
  close(): Promise<void>;
}

/** The inbox of a source. All methods throw `SyncError`. */
export interface Inbox extends InboxViewer {
  /** Deliveries that wait and are due at `now`, those after `after` only, in the order in which they arrived. */
  waiting(after: number, now: TimestampText, limit: number): Promise<DeliveryRow[]>;
  /** Stores the state of deliveries after an attempt; durable once this resolves. */
  settle(updates: readonly DeliveryUpdate[]): Promise<void>;
  /**
   * One attempt at one durable transaction. Throws `warehouse_busy` soon if another program holds the lock,
   * `warehouse_full`, `warehouse_unreachable` or `warehouse_gone`; deliveries may then be stored, and count as repeats.
   */
  write(deliveries: readonly NewDelivery[]): Promise<InboxEffect[]>;
  /** Deletes old finished deliveries, and dead ones before another time; returns the number. */
  purge(before: { finished: TimestampText; dead: TimestampText }, limit: number): Promise<number>;
  /** Counts deliveries for status and metrics. */
  figures(): Promise<InboxCounters>;
  /** Makes these deliveries, or all dead ones, wait again from the start; returns the number. */
  replay(deliveries: readonly number[] | 'dead'): Promise<number>;
  /** Removes deleted data from free space and log. Returns false while a reader still needs the log. */
  clean(): Promise<boolean>;
}

/** The methods that are single statements. */
export function inboxQueries(
  own: Kysely<InboxTables>,
  close: () => Promise<void>,
): InboxViewer & Pick<Inbox, 'waiting' | 'purge'> {
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
    after: (seq, limit) => all.where('seq', '>', seq).orderBy('seq').limit(limit).execute(),
    close,
    waiting: (after, now, limit) =>
      all
        .where(IS_WAITING)
        .where('seq', '>', after)
        .where((is) => is.or([is('due_at', 'is', null), is('due_at', '<=', now)]))
        .orderBy('seq')
        .limit(limit)
        .execute(),
    purge: async ({ finished, dead }, limit) => {
      let count = 0;
      // One state after the other, because only then the index is used.
      for (const state of ['done', 'ignored', 'dead'] as const) {
        const before = state === 'dead' ? dead : finished;
        const old = own.selectFrom('_sync_deliveries').select('seq').where(IS_FINISHED).where('state', '=', state);
        const { numDeletedRows } = await own
          .deleteFrom('_sync_deliveries')
          .where('seq', 'in', old.where('finished_at', '<', before).limit(limit))
          .executeTakeFirst();
        count += Number(numDeletedRows);
      }
      return count;
    },
  };
}

/** As literals: with a parameter SQLite does not use the partial indexes. */
const IS_FINISHED = sql<boolean>`"state" <> 'waiting'`;
const IS_WAITING = sql<boolean>`"state" = 'waiting'`;

/** Each count reads one index and no table. */
export function countDeliveries(own: Kysely<InboxTables>): Promise<InboxCounters> {
  const count = own.selectFrom('_sync_deliveries').select((select) => select.fn.countAll<number>().as('n'));
  const dead = count.where(IS_FINISHED).where('state', '=', 'dead');
  const different = count.where('differs_from', 'is not', null);
  return own
    .selectFrom('_sync_deliveries')
    .select((select) => [
      select.fn.countAll<number>().as('waiting'),
      sql<number>`CAST(coalesce(sum("size"), 0) AS bigint)`.as('waitingBytes'),
      select.fn.min('received_at').as('oldest'),
      dead.$asScalar().$notNull().as('dead'),
      different.$asScalar().$notNull().as('different'),
    ])
    .where(IS_WAITING)
    .executeTakeFirstOrThrow();
}

const FROM_THE_START = { state: 'waiting', attempts: 0, due_at: null, finished_at: null } as const;

/** The statement that makes deliveries, or all dead ones, wait again from the start. */
export function replayStatement(own: Kysely<InboxTables>, deliveries: readonly number[] | 'dead'): CompiledQuery {
  const replayed = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ ...FROM_THE_START, reason: null, events: eb('events', '+', 1) }))
    .returning('seq');
  if (deliveries === 'dead') return replayed.where(IS_FINISHED).where('state', '=', 'dead').compile();
  return replayed.where('seq', 'in', deliveries).compile();
}

type Rows = readonly Readonly<Record<string, unknown>>[];
/** Yields statements one by one, and takes the rows that each of them returns. */
type Statements<Result> = Generator<CompiledQuery, Result, Rows>;

/** SQLite takes 32,766 parameters per statement. */
const DELIVERIES_PER_STATEMENT = 1_000;

/**
 * The statements that write deliveries within the caller's transaction, while no other transaction writes any: those with
 * new ids are inserted together, the others one by one.
 */
export function* writeDeliveries(
  own: Kysely<InboxTables>,
  deliveries: readonly NewDelivery[],
): Statements<InboxEffect[]> {
  const firsts = new Map<string, NewDelivery>();
  for (const delivery of deliveries) {
    if (!firsts.has(delivery.delivery_id)) firsts.set(delivery.delivery_id, delivery);
  }
  const inserted = new Set<NewDelivery | undefined>();
  for (const part of inParts([...firsts.values()], DELIVERIES_PER_STATEMENT)) {
    const rows = yield insertStatement(own, part).returning('delivery_id').compile();
    for (const { delivery_id } of rows) inserted.add(firsts.get(String(delivery_id)));
  }
  const effects: InboxEffect[] = [];
  for (const delivery of deliveries) {
    effects.push(inserted.has(delivery) ? 'new' : yield* writeRepeat(own, delivery));
  }
  return effects;
}

function insertStatement(own: Kysely<InboxTables>, deliveries: readonly NewDelivery[]) {
  const values = deliveries.map((delivery) => {
    const { delivery_id, received_at, headers, body, differs_from = null } = delivery;
    return { delivery_id, received_at, headers, body, size: sizeOf(delivery), differs_from };
  });
  const inserted = own.insertInto('_sync_deliveries').values(values);
  return inserted.onConflict((conflict) => conflict.column('delivery_id').doNothing());
}

/** True if the query returns a row. */
function* returnsRow(query: { compile(): CompiledQuery }): Statements<boolean> {
  return (yield query.compile()).length > 0;
}

/**
 * Writes a delivery whose id is known. A repeat of the sender's own id is counted, unless the first one is dead: then it
 * waits again. If the id is only the hash of the body, the same body may be a new event: a finished one waits again, and
 * a waiting one is not finished by an attempt that has read it before.
 */
function* writeRepeat(own: Kysely<InboxTables>, delivery: NewDelivery): Statements<InboxEffect> {
  const { delivery_id, received_at, headers, body, is_id_sent, differs_from } = delivery;
  const content = { received_at, headers, body, size: sizeOf(delivery) };
  const repeated = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ repeats: eb('repeats', '+', 1) }))
    .where('delivery_id', '=', delivery_id)
    .returning('seq');
  const event = repeated.set(({ eb }) => ({ events: eb('events', '+', 1) }));
  const waitsAgain = event.set({ ...FROM_THE_START, ...content });
  const again = is_id_sent ? waitsAgain.where('state', '=', 'dead') : waitsAgain.where('state', '<>', 'waiting');
  const counted = is_id_sent ? repeated.where('state', '<>', 'dead') : event.where('state', '=', 'waiting');
  const other = own.selectFrom('_sync_deliveries').select('seq').where('delivery_id', '=', delivery_id);
  // The row may be purged between two statements: then all of them are tried again.
  for (;;) {
    if (is_id_sent && (yield* returnsRow(other.where('body', '<>', body)))) {
      return yield* writeRepeat(own, withOwnId(delivery));
    }
    if (yield* returnsRow(again)) return 'again';
    if (yield* returnsRow(counted)) return 'repeat';
    if (yield* returnsRow(insertStatement(own, [delivery]).returning('seq'))) {
      return differs_from === undefined ? 'new' : 'different';
    }
  }
}

/** The statements that store the state of deliveries after an attempt. */
export function updateStatements(own: Kysely<InboxTables>, updates: readonly DeliveryUpdate[]): CompiledQuery[] {
  const nothing = {
    body: new Uint8Array(),
    headers: '{}',
    size: 0,
    record_id: null,
    differs_from: null,
    delivery_id: sql<string>`'erased-' || "seq"`,
  };
  return updates.map(({ seq, readEvents, erases, ...columns }) => {
    const { reason, kind, record_id } = columns;
    const texts = { reason: toStorable(reason), kind: toStorable(kind), record_id: toStorable(record_id) };
    const row = own
      .updateTable('_sync_deliveries')
      .set({ ...columns, ...texts, ...(erases ? nothing : {}) })
      .where('seq', '=', seq);
    return (readEvents === null ? row : row.where('events', '=', readEvents)).compile();
  });
}

/** Postgres stores neither NUL nor half of a surrogate pair in a text; the copied tables follow the same policy. */
function toStorable(text: string | null): string | null {
  return text?.toWellFormed().replaceAll('\0', '␀') ?? null;
}

/** Digits of the SHA-256 of a body; enough that no two bodies under one id collide. */
const BODY_HASH_DIGITS = 16;

/**
 * The delivery under an id of our own, because another body is stored under the sender's id. Headers do not count: most
 * are not signed, and one captured delivery with changed headers would make any number of deliveries.
 */
function withOwnId(delivery: NewDelivery): NewDelivery {
  const { delivery_id, body, differs_from = delivery_id } = delivery;
  const digest = createHash('sha256').update(body).digest('hex');
  return { ...delivery, delivery_id: `${delivery_id}#${digest.slice(0, BODY_HASH_DIGITS)}`, differs_from };
}

/** The size of a waiting delivery: bytes of its body plus characters of its headers, which are mostly as many bytes. */
export function sizeOf({ body, headers }: NewDelivery): number {
  return body.byteLength + headers.length;
}
