import { createHash } from 'node:crypto';
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type {
  DeliveryRow,
  Inbox,
  InboxEffect,
  InboxEntry,
  InboxFigures,
  InboxTables,
  NewDelivery,
  Settlement,
} from './inbox.ts';

/** Queries of those who only read an inbox. */
export type InboxViewer = Pick<Inbox, 'list' | 'get' | 'after' | 'close'>;

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
    after: (seq, limit) => all.where('seq', '>', seq).orderBy('seq').limit(limit).execute(),
    close,
  };
}

/** Tells SQLite, which needs it as a literal, that it may use the index of those that do not wait. */
const IS_FINISHED = sql<boolean>`"state" <> 'waiting'`;
const IS_WAITING = sql<boolean>`"state" = 'waiting'`;

/** What is read and removed by single statements. */
export function inboxQueries(own: Kysely<InboxTables>): Pick<Inbox, 'waiting' | 'purge'> {
  const purgeState = async (state: DeliveryRow['state'], before: string, limit: number): Promise<number> => {
    const old = own.selectFrom('_sync_deliveries').select('seq').where(IS_FINISHED).where('state', '=', state);
    const { numDeletedRows } = await own
      .deleteFrom('_sync_deliveries')
      .where('seq', 'in', old.where('finished_at', '<', before).limit(limit))
      .executeTakeFirst();
    return Number(numDeletedRows);
  };
  return {
    waiting: (after, now, limit) =>
      own
        .selectFrom('_sync_deliveries')
        .selectAll()
        .where(IS_WAITING)
        .where('seq', '>', after)
        .where((is) => is.or([is('due_at', 'is', null), is('due_at', '<=', now)]))
        .orderBy('seq')
        .limit(limit)
        .execute(),
    purge: async ({ finished, dead }, limit) => {
      const done = await purgeState('done', finished, limit);
      const ignored = await purgeState('ignored', finished, limit);
      return done + ignored + (await purgeState('dead', dead, limit));
    },
  };
}

/** All are counted in an index alone. */
export function countDeliveries(own: Kysely<InboxTables>): Promise<InboxFigures> {
  return own
    .selectFrom('_sync_deliveries')
    .select((select) => [
      select.fn.countAll<number>().as('waiting'),
      sql<number>`CAST(coalesce(sum("size"), 0) AS bigint)`.as('waitingBytes'),
      select.fn.min('received_at').as('oldest'),
      select
        .selectFrom('_sync_deliveries')
        .select((count) => count.fn.countAll<number>().as('n'))
        .where(IS_FINISHED)
        .where('state', '=', 'dead')
        .$asScalar()
        .$notNull()
        .as('dead'),
      select
        .selectFrom('_sync_deliveries')
        .select((count) => count.fn.countAll<number>().as('n'))
        .where('differs_from', 'is not', null)
        .$asScalar()
        .$notNull()
        .as('different'),
    ])
    .where(IS_WAITING)
    .executeTakeFirstOrThrow();
}

const FROM_THE_START = { state: 'waiting', attempts: 0, due_at: null, finished_at: null } as const;

/** The statement that makes deliveries wait again from the start, whatever became of them, or all dead ones. */
export function replayStatement(own: Kysely<InboxTables>, deliveries: readonly number[] | 'dead'): CompiledQuery {
  const replayed = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ ...FROM_THE_START, reason: null, events: eb('events', '+', 1) }))
    .returning('seq');
  if (deliveries === 'dead') return replayed.where(IS_FINISHED).where('state', '=', 'dead').compile();
  return replayed.where('seq', 'in', deliveries).compile();
}

type Rows = readonly Readonly<Record<string, unknown>>[];
type Steps = Generator<CompiledQuery, InboxEffect, Rows>;

/** Deliveries that one statement inserts: SQLite takes 32,766 parameters. */
const INSERTED_AT_ONCE = 1_000;

/**
 * Writes entries: yields statements that the caller runs in one transaction, and takes the rows that each of them
 * returns. The first deliveries of their ids are inserted together; what is left is written one after the other. With
 * `turn`, the statement by which others wait for those, the first ones are inserted in the order of their ids: so two
 * receivers with the same deliveries wait for each other in one order only.
 */
export function* writeEntries(
  own: Kysely<InboxTables>,
  entries: readonly InboxEntry[],
  turn: CompiledQuery | null = null,
): Generator<CompiledQuery, InboxEffect[], Rows> {
  const firsts = new Map<string, NewDelivery>();
  for (const entry of entries) {
    if ('delivery' in entry && !firsts.has(entry.delivery.delivery_id))
      firsts.set(entry.delivery.delivery_id, entry.delivery);
  }
  const ids = turn === null ? [...firsts.keys()] : [...firsts.keys()].toSorted();
  const inserted = new Set<unknown>();
  for (let from = 0; from < ids.length; from += INSERTED_AT_ONCE) {
    const values = ids.slice(from, from + INSERTED_AT_ONCE).flatMap((id) => valuesOf(firsts.get(id)));
    const rows = yield insertNew(own, values).returning('delivery_id').compile();
    for (const { delivery_id } of rows) inserted.add(delivery_id);
  }
  const isNew = (entry: InboxEntry): boolean =>
    'delivery' in entry &&
    inserted.has(entry.delivery.delivery_id) &&
    firsts.get(entry.delivery.delivery_id) === entry.delivery;
  if (turn !== null && !entries.every(isNew)) yield turn;
  const effects: InboxEffect[] = [];
  for (const entry of entries) {
    if (isNew(entry)) effects.push(effectOf(entry));
    else effects.push('delivery' in entry ? yield* store(own, entry.delivery) : yield* settle(own, entry.settlement));
  }
  return effects;
}

function insertNew(own: Kysely<InboxTables>, values: ReturnType<typeof valuesOf>) {
  const inserted = own.insertInto('_sync_deliveries').values(values);
  return inserted.onConflict((conflict) => conflict.column('delivery_id').doNothing());
}

function valuesOf(delivery: NewDelivery | undefined) {
  if (delivery === undefined) return [];
  const { delivery_id, received_at, headers, body, differs_from = null } = delivery;
  return [{ delivery_id, received_at, headers, body, size: sizeOf(delivery), differs_from }];
}

function effectOf(entry: InboxEntry): InboxEffect {
  return 'delivery' in entry && entry.delivery.differs_from !== undefined ? 'different' : 'new';
}

/**
 * A repeat of the sender's own id is counted, unless the first one is dead: then it waits again. If the id is only the
 * hash of the body, the same body may be a new event: a finished one waits again, a waiting one is not settled unread.
 */
function* store(own: Kysely<InboxTables>, delivery: NewDelivery): Steps {
  const { delivery_id, received_at, headers, body, is_id_sent, differs_from = null } = delivery;
  const content = { received_at, headers, body, size: sizeOf(delivery) };
  const repeated = own
    .updateTable('_sync_deliveries')
    .set(({ eb }) => ({ repeats: eb('repeats', '+', 1) }))
    .where('delivery_id', '=', delivery_id)
    .returning('seq');
  const event = repeated.set(({ eb }) => ({ events: eb('events', '+', 1) }));
  // Another process may settle or purge it between two statements: then it is looked at again.
  for (;;) {
    const ifNew = insertNew(own, valuesOf(delivery)).returning('seq');
    if ((yield ifNew.compile()).length > 0) return differs_from === null ? 'new' : 'different';
    if (is_id_sent) {
      const other = own.selectFrom('_sync_deliveries').select('seq').where('delivery_id', '=', delivery_id);
      if ((yield other.where('body', '<>', body).compile()).length > 0) return yield* store(own, setApart(delivery));
    }
    const waitsAgain = event.set({ ...FROM_THE_START, ...content });
    const again = is_id_sent ? waitsAgain.where('state', '=', 'dead') : waitsAgain.where('state', '<>', 'waiting');
    if ((yield again.compile()).length > 0) return 'again';
    const counted = is_id_sent ? repeated.where('state', '<>', 'dead') : event.where('state', '=', 'waiting');
    if ((yield counted.compile()).length > 0) return 'repeat';
  }
}

function* settle(own: Kysely<InboxTables>, { seq, readEvents, erases, ...columns }: Settlement): Steps {
  const row = own.updateTable('_sync_deliveries').where('seq', '=', seq).returning('seq');
  const { state, attempts, due_at, finished_at, reason, kind, resource, record_id } = columns;
  const texts = { reason: storable(reason), kind: storable(kind), resource, record_id: storable(record_id) };
  const settled = row.set({ state, attempts, due_at, finished_at, ...texts });
  const isUnchanged = readEvents === null ? settled : settled.where('events', '=', readEvents);
  if ((yield isUnchanged.compile()).length === 0) return 'overtaken';
  if (erases === true) {
    const nothing = { body: new Uint8Array(), headers: '{}', size: 0, record_id: null, differs_from: null };
    yield row.set({ ...nothing, delivery_id: sql<string>`'erased-' || "seq"` }).compile();
  }
  return 'settled';
}

/** Postgres holds neither NUL nor half of a surrogate pair in a text: by the policy of the copied tables. */
function storable(text: string | null): string | null {
  return text?.toWellFormed().replaceAll('\0', '␀') ?? null;
}

/** Of the SHA-256 of a body; enough that no two bodies under one id meet by chance. */
const APART_DIGITS = 16;

/**
 * A delivery under an id of its own, because another body stands under the one that it was sent with: the first one
 * stays as it is, and this one is worked on beside it. The headers do not count: they are not signed as a rule, and
 * a person who has captured one delivery could make as many of it as there are headers to think of.
 */
function setApart(delivery: NewDelivery): NewDelivery {
  const { delivery_id, body, differs_from = delivery_id } = delivery;
  const digest = createHash('sha256').update(body).digest('hex');
  return { ...delivery, delivery_id: `${delivery_id}#${digest.slice(0, APART_DIGITS)}`, differs_from };
}

/** The size of a waiting delivery: bytes of its body plus characters of its headers, which are mostly as many bytes. */
export function sizeOf({ body, headers }: Pick<NewDelivery, 'body' | 'headers'>): number {
  return body.byteLength + headers.length;
}
