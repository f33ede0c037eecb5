import { SyncError } from '../../../model/errors.ts';
import type { InboxEffect, InboxEntry, NewDelivery } from '../../inbox.ts';
import { bodyDigest, setApart, sizeOf } from '../../repetition.ts';
import { foldEntries, type InboxRow } from './fold-entries.ts';
import type { Session } from '../connection/session.ts';

/**
 * Numbered in the order in which they came, but inserted in the order of their ids: so two receivers with the same
 * deliveries wait for each other in one order only. The bodies are one value, cut up here: as an array they would be hex.
 */
const INSERT = `WITH "numbered" AS MATERIALIZED (
    SELECT nextval((SELECT pg_get_serial_sequence('_sync_deliveries', 'seq')::regclass)) AS "seq", "asked".*
    FROM pg_catalog.jsonb_to_recordset($1::jsonb)
      AS "asked" ("delivery_id" text, "received_at" timestamptz, "headers" text, "size" bigint, "differs_from" text,
        "start" integer, "length" integer))
  INSERT INTO "_sync_deliveries" ("seq", "delivery_id", "received_at", "headers", "body", "size", "differs_from")
    OVERRIDING SYSTEM VALUE
  SELECT "seq", "delivery_id", "received_at", "headers", substr($2::bytea, "start", "length"), "size", "differs_from"
  FROM "numbered"
  ORDER BY "delivery_id" COLLATE "C"
  ON CONFLICT ("delivery_id") DO NOTHING RETURNING "delivery_id", "seq"`;
const DIGESTS = `SELECT "delivery_id", encode(sha256("body"), 'hex') AS "digest"
  FROM "_sync_deliveries" WHERE "delivery_id" = ANY ($1::text[])`;
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
    "headers" = coalesce("to"."headers", "row"."headers"), "size" = coalesce("to"."size", "row"."size"),
    "body" = coalesce(substr($2::bytea, "to"."start", "to"."length"), "row"."body")
  FROM pg_catalog.jsonb_to_recordset($1::jsonb) AS "to" ("seq" bigint, "state" text, "attempts" bigint, "due_at" timestamptz,
    "finished_at" timestamptz, "reason" text, "kind" text, "resource" text, "record_id" text, "repeats" bigint,
    "events" bigint, "received_at" timestamptz, "headers" text, "size" bigint, "start" integer, "length" integer)
  WHERE "row"."seq" = "to"."seq"`;

const ERASE = `UPDATE "_sync_deliveries" SET "body" = '\\x', "headers" = '{}', "size" = 0, "record_id" = NULL,
  "delivery_id" = 'erased-' || "seq", "differs_from" = NULL WHERE "seq" = ANY ($1::bigint[])`;

/**
 * Writes entries inside the caller's transaction: one statement where all are new, four otherwise, however many they
 * are, and two more where a body is another than the one that stands under its id. Throws `warehouse_busy` where a
 * delivery went away in between.
 */
export async function writeEntries(session: Session, entries: readonly InboxEntry[]): Promise<InboxEffect[]> {
  const { keyed, fresh, repeated } = await insertKeyed(session, entries);
  const settled = entries.flatMap((entry) => ('settlement' in entry ? [entry.settlement.seq] : []));
  const rows = await lockRows(session, repeated, settled);
  const { effects, changed } = foldEntries(keyed, fresh, rows);
  await rewrite(session, changed);
  const erased = entries.flatMap((entry, at) =>
    'settlement' in entry && entry.settlement.erases === true && effects[at] === 'settled'
      ? [entry.settlement.seq]
      : [],
  );
  if (erased.length > 0) await session.execute(ERASE, [erased]);
  return effects;
}

/**
 * Inserts the first delivery of each id, until each entry has an id under which its own body stands. Returns the entries
 * as `keyed` so, the numbers of the inserted ones by their ids as `fresh`, and the ids of those from before as `repeated`.
 */
async function insertKeyed(session: Session, entries: readonly InboxEntry[]) {
  const fresh = new Map<string, number>();
  const repeated: string[] = [];
  const bodies: Bodies = new Map();
  let keyed = entries;
  for (let firsts = firstOfEachId(keyed, bodies); firsts.size > 0; firsts = firstOfEachId(keyed, bodies)) {
    const inserted = await insertNew(session, firsts);
    for (const [id, seq] of inserted) fresh.set(id, seq);
    for (const [id, { body }] of firsts) bodies.set(id, body);
    const existing = [...firsts.keys()].filter((id) => !inserted.has(id));
    repeated.push(...existing);
    for (const [id, digest] of await readDigests(session, existing)) bodies.set(id, digest);
    keyed = keyed.map((entry) => (isAnother(entry, bodies) ? { delivery: setApart(entry.delivery) } : entry));
  }
  return { keyed, fresh, repeated };
}

/** Under the ids so far: bodies of this transaction, digests of those from before. */
type Bodies = Map<string, Uint8Array | string>;

/** Only a sender's id can stand for two bodies. */
function isAnother(entry: InboxEntry, bodies: Bodies): entry is { delivery: NewDelivery } {
  if (!('delivery' in entry) || !entry.delivery.is_id_sent) return false;
  const { delivery_id, body } = entry.delivery;
  const first = bodies.get(delivery_id) ?? '';
  if (typeof first === 'string') return first !== bodyDigest(body);
  return first !== body && Buffer.compare(first, body) !== 0;
}

/** Of those whose ids are not looked at yet. */
function firstOfEachId(entries: readonly InboxEntry[], known: Bodies): Map<string, NewDelivery> {
  const firsts = new Map<string, NewDelivery>();
  for (const entry of entries) {
    if (!('delivery' in entry) || known.has(entry.delivery.delivery_id)) continue;
    if (!firsts.has(entry.delivery.delivery_id)) firsts.set(entry.delivery.delivery_id, entry.delivery);
  }
  return firsts;
}

async function readDigests({ execute }: Session, ids: readonly string[]): Promise<[string, string][]> {
  if (ids.length === 0) return [];
  const { rows } = await execute<{ delivery_id: string; digest: string }>(DIGESTS, [ids]);
  if (rows.length < ids.length) throw purgedMeanwhile();
  return rows.map(({ delivery_id, digest }) => [delivery_id, digest]);
}

/** The numbers of the new ones, by their ids. */
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

async function lockRows({ execute }: Session, ids: readonly string[], seqs: readonly number[]): Promise<InboxRow[]> {
  if (ids.length + seqs.length === 0) return [];
  const { rows } = await execute<Omit<InboxRow, 'renewed'>>(LOCK, [ids, seqs]);
  const found = new Set(rows.map(({ delivery_id }) => delivery_id));
  if (ids.some((id) => !found.has(id))) throw purgedMeanwhile();
  return rows.map((row) => Object.assign(row, { renewed: null }));
}

async function rewrite({ execute }: Session, changed: readonly InboxRow[]): Promise<void> {
  if (changed.length === 0) return;
  const apart = bodiesApart();
  const to = changed.map(({ renewed, ...columns }) =>
    Object.assign(columns, renewed === null ? {} : columnsOf(renewed, apart)),
  );
  await execute(REWRITE, [JSON.stringify(to, (_, value: unknown) => storable(value)), apart.together()]);
}

/** Bodies as one value, and where in it each is. */
function bodiesApart() {
  const bodies: Uint8Array[] = [];
  let end = 0;
  return {
    add: (body: Uint8Array) => {
      bodies.push(body);
      end += body.length;
      return { start: end - body.length + 1, length: body.length };
    },
    together: () => Buffer.concat(bodies),
  };
}

function columnsOf(delivery: NewDelivery, apart: ReturnType<typeof bodiesApart>) {
  const { delivery_id, received_at, headers, body, differs_from = null } = delivery;
  return { delivery_id, received_at, headers, size: sizeOf(delivery), differs_from, ...apart.add(body) };
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
