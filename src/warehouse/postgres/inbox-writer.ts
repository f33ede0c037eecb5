import { SyncError } from '../../model/errors.ts';
import type { InboxEffect, InboxEntry, NewDelivery } from '../inbox.ts';
import { foldEntries, type Standing } from './fold-entries.ts';
import type { Session } from './session.ts';

/**
 * Numbered in the order in which they came, but inserted in the order of their ids: so two receivers with the same
 * deliveries wait for each other in one order only. The bodies are one value, cut up here: as an array they would be hex.
 */
const INSERT = `WITH "numbered" AS MATERIALIZED (
    SELECT nextval((SELECT pg_get_serial_sequence('_sync_deliveries', 'seq')::regclass)) AS "seq", "asked".*
    FROM jsonb_to_recordset($1::jsonb)
      AS "asked" ("delivery_id" text, "received_at" timestamp, "headers" text, "start" integer, "length" integer))
  INSERT INTO "_sync_deliveries" ("seq", "delivery_id", "received_at", "headers", "body") OVERRIDING SYSTEM VALUE
  SELECT "seq", "delivery_id", "received_at", "headers", substr($2::bytea, "start", "length") FROM "numbered"
  ORDER BY "delivery_id" COLLATE "C"
  ON CONFLICT ("delivery_id") DO NOTHING RETURNING "delivery_id", "seq"`;
/** After all inserts, and in one order: nobody who holds a row waits for an id. */
const LOCK = `SELECT "seq", "delivery_id", "state", "attempts", "due_at", "finished_at", "reason", "kind", "resource",
    "record_id", "repeats", "events"
  FROM "_sync_deliveries" WHERE "delivery_id" = ANY ($1::text[]) OR "seq" = ANY ($2::bigint[])
  ORDER BY "seq" FOR UPDATE`;
const REWRITE = `UPDATE "_sync_deliveries" AS "row" SET
    "state" = "to"."state", "attempts" = "to"."attempts", "due_at" = "to"."due_at",
    "finished_at" = "to"."finished_at", "reason" = "to"."reason", "kind" = "to"."kind",
    "resource" = "to"."resource", "record_id" = "to"."record_id", "repeats" = "to"."repeats",
    "events" = "to"."events", "received_at" = coalesce("to"."received_at", "row"."received_at"),
    "headers" = coalesce("to"."headers", "row"."headers"),
    "body" = coalesce(substr($2::bytea, "to"."start", "to"."length"), "row"."body")
  FROM jsonb_to_recordset($1::jsonb) AS "to" ("seq" bigint, "state" text, "attempts" bigint, "due_at" timestamp,
    "finished_at" timestamp, "reason" text, "kind" text, "resource" text, "record_id" text, "repeats" bigint,
    "events" bigint, "received_at" timestamp, "headers" text, "start" integer, "length" integer)
  WHERE "row"."seq" = "to"."seq"`;

/**
 * Writes entries inside the caller's transaction: one statement where all are new, three otherwise, however many they
 * are. Throws `warehouse_busy` where a delivery went away in between.
 */
export async function writeEntries(session: Session, entries: readonly InboxEntry[]): Promise<InboxEffect[]> {
  const firsts = firstOfEachId(entries);
  const fresh = await insertNew(session, firsts);
  const repeated = [...firsts.keys()].filter((id) => !fresh.has(id));
  const there = await lockStanding(session, repeated, settled(entries));
  const { effects, changed } = foldEntries(entries, fresh, there);
  await rewrite(session, changed);
  return effects;
}

function firstOfEachId(entries: readonly InboxEntry[]): Map<string, NewDelivery> {
  const firsts = new Map<string, NewDelivery>();
  for (const entry of entries) {
    if ('delivery' in entry && !firsts.has(entry.delivery.delivery_id)) {
      firsts.set(entry.delivery.delivery_id, entry.delivery);
    }
  }
  return firsts;
}

function settled(entries: readonly InboxEntry[]): number[] {
  return entries.flatMap((entry) => ('settlement' in entry ? [entry.settlement.seq] : []));
}

/** The numbers of those that were not there, by their ids. */
async function insertNew({ execute }: Session, firsts: ReadonlyMap<string, NewDelivery>): Promise<Map<string, number>> {
  if (firsts.size === 0) return new Map();
  const apart = bodiesApart();
  const asked = [...firsts.values()].map((delivery) => columnsOf(delivery, apart));
  const inserted = await execute<{ delivery_id: string; seq: number }>(INSERT, [
    JSON.stringify(asked),
    apart.together(),
  ]);
  return new Map(inserted.rows.map(({ delivery_id, seq }) => [delivery_id, seq]));
}

async function lockStanding(
  { execute }: Session,
  ids: readonly string[],
  seqs: readonly number[],
): Promise<Standing[]> {
  if (ids.length + seqs.length === 0) return [];
  const { rows } = await execute<Omit<Standing, 'renewed'>>(LOCK, [ids, seqs]);
  const found = new Set(rows.map(({ delivery_id }) => delivery_id));
  if (ids.some((id) => !found.has(id))) throw purgedMeanwhile();
  return rows.map((row) => Object.assign(row, { renewed: null }));
}

async function rewrite({ execute }: Session, changed: readonly Standing[]): Promise<void> {
  if (changed.length === 0) return;
  const apart = bodiesApart();
  const to = changed.map(({ renewed, ...columns }) =>
    Object.assign(columns, renewed === null ? {} : columnsOf(renewed, apart)),
  );
  await execute(REWRITE, [JSON.stringify(to, (_, value: unknown) => storable(value)), apart.together()]);
}

/** Bodies as one value, and where in it each is. */
interface BodiesApart {
  add(body: Uint8Array): { start: number; length: number };
  together(): Buffer;
}

function bodiesApart(): BodiesApart {
  const bodies: Uint8Array[] = [];
  let end = 0;
  return {
    add: (body) => {
      bodies.push(body);
      end += body.length;
      return { start: end - body.length + 1, length: body.length };
    },
    together: () => Buffer.concat(bodies),
  };
}

function columnsOf({ delivery_id, received_at, headers, body }: NewDelivery, apart: BodiesApart) {
  return { delivery_id, received_at, headers, ...apart.add(body) };
}

/** Postgres holds neither NUL nor half of a surrogate pair in a text: by the policy of the copied tables. */
function storable(value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '␀') : value;
}

function purgedMeanwhile(): SyncError {
  return new SyncError('warehouse_busy', 'a delivery was removed while its repeat was written', {
    recovery: 'stop',
    hint: 'try again: it is then stored as a new one',
  });
}
