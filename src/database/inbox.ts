// The inbox of webhook deliveries: its table, and the statements that both databases share.
//
// A webhook is stored here before its sender gets a 2xx, so that no event is lost if the process is killed afterwards. Most
// senders repeat a request that they think has failed: it has the same id, and is only counted.
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
  /** The request's body, without the secrets of the source. */
  body: Uint8Array;
  /** The sender's id, if another body is stored under it; then `delivery_id` is a new one (`withNewId`). */
  differs_from?: string;
}

/** A row of the inbox; the database fills the generated columns of a delivery that is inserted. */
interface DeliveryTable {
  /** Grows with every delivery. */
  seq: Generated<number>;
  delivery_id: string;
  /** When the latest request with this id that had to be processed was received. */
  received_at: TimestampText;
  headers: string;
  body: Uint8Array;
  state: Generated<DeliveryState>;
  attempts: Generated<number>;
  /** When it is processed; null for at once. */
  due_at: Generated<TimestampText | null>;
  finished_at: Generated<TimestampText | null>;
  /** Why it is dead or ignored, or the error of the last attempt. */
  reason: Generated<string | null>;
  /** The kind, resource and record of its first event; null until it is read. */
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
  /** `events` of the row when it was read: if there are more now, the row keeps waiting. Null to update it in any case. */
  readEvents: number | null;
  /** True to erase its body, headers and ids as well, because an operator had the record erased that it names. */
  erases?: true;
}

/**
 * What writing a request has done. `new`: inserted. `different`: inserted under a new id, because another body is stored
 * under its id. `repeat`: counted. `again`: a finished delivery waits again.
 */
export type InboxEffect = 'new' | 'different' | 'repeat' | 'again';

/** True if a delivery waits now that did not wait before, so that processing must be started. */
export function isArrival(effect: InboxEffect): boolean {
  return effect !== 'repeat';
}

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
  /** Stores the state of deliveries after an attempt to process them; durable once this resolves. */
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

/** The methods that are alike on both databases. */
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

/** Literals, because SQLite does not use its partial indexes for a parameter. */
const IS_FINISHED = sql<boolean>`"state" <> 'waiting'`;
const IS_WAITING = sql<boolean>`"state" = 'waiting'`;

/** Counts the deliveries. Each count reads one index and no table. */
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

/** Returns the statement that makes deliveries, or all dead ones, wait again from the start. */
export function replayStatement(own: Kysely<InboxTables>, deliveries: readonly number[] | 'dead'): CompiledQuery {
  const replayed = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ ...FROM_THE_START, reason: null, events: eb('events', '+', 1) }))
    .returning('seq');
  if (deliveries === 'dead') return replayed.where(IS_FINISHED).where('state', '=', 'dead').compile();
  return replayed.where('seq', 'in', deliveries).compile();
}

type Rows = readonly Readonly<Record<string, unknown>>[];
/**
 * Yields statements one by one; the caller runs each and passes its rows to `next`. So the same procedure serves SQLite,
 * which runs a transaction without waiting, and Postgres.
 */
type Statements<Result> = Generator<CompiledQuery, Result, Rows>;

/** SQLite takes 32,766 parameters per statement. */
const DELIVERIES_PER_STATEMENT = 1_000;

/**
 * Writes deliveries within the caller's transaction, while no other transaction writes any: those with new ids are
 * inserted together, the others one by one. Returns one effect per delivery.
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

function* returnsRow(query: { compile(): CompiledQuery }): Statements<boolean> {
  return (yield query.compile()).length > 0;
}

/**
 * Writes a delivery whose id is stored already. The sender's own id stands for one event: a repeat is counted, and only a
 * dead delivery waits again. If the id is the hash of the body, the same body may be a new event: a finished delivery waits
 * again, and a waiting one gets one event more, so that an attempt which has read it before does not finish it.
 */
function* writeRepeat(own: Kysely<InboxTables>, delivery: NewDelivery): Statements<InboxEffect> {
  const { delivery_id, received_at, headers, body, is_id_sent, differs_from } = delivery;
  const content = { received_at, headers, body, size: sizeOf(delivery) };
  const countRepeat = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ repeats: eb('repeats', '+', 1) }))
    .where('delivery_id', '=', delivery_id)
    .returning('seq');
  const countEvent = countRepeat.set(({ eb }) => ({ events: eb('events', '+', 1) }));
  const restart = countEvent.set({ ...FROM_THE_START, ...content });
  const restartFinished = is_id_sent ? restart.where('state', '=', 'dead') : restart.where('state', '<>', 'waiting');
  const countOtherwise = is_id_sent
    ? countRepeat.where('state', '<>', 'dead')
    : countEvent.where('state', '=', 'waiting');
  const stored = own.selectFrom('_sync_deliveries').select('seq').where('delivery_id', '=', delivery_id);
  // If the row is purged between two statements, all of them are tried again.
  for (;;) {
    if (is_id_sent && (yield* returnsRow(stored.where('body', '<>', body)))) {
      return yield* writeRepeat(own, withNewId(delivery));
    }
    if (yield* returnsRow(restartFinished)) return 'again';
    if (yield* returnsRow(countOtherwise)) return 'repeat';
    if (yield* returnsRow(insertStatement(own, [delivery]).returning('seq'))) {
      return differs_from === undefined ? 'new' : 'different';
    }
  }
}

/** Returns the statements that store the state of deliveries after an attempt. */
export function updateStatements(own: Kysely<InboxTables>, updates: readonly DeliveryUpdate[]): CompiledQuery[] {
  const erased = {
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
      .set({ ...columns, ...texts, ...(erases ? erased : {}) })
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
 * Returns the delivery with a new id, made of the sender's id and the hash of the body. The headers are not hashed: most
 * are not signed, so an attacker could change them and store one captured delivery any number of times.
 */
function withNewId(delivery: NewDelivery): NewDelivery {
  const { delivery_id, body, differs_from = delivery_id } = delivery;
  const digest = createHash('sha256').update(body).digest('hex');
  return { ...delivery, delivery_id: `${delivery_id}#${digest.slice(0, BODY_HASH_DIGITS)}`, differs_from };
}

/** The size of a waiting delivery: bytes of its body plus characters of its headers, which are mostly as many bytes. */
export function sizeOf({ body, headers }: NewDelivery): number {
  return body.byteLength + headers.length;
}
