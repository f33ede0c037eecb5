import { sql, type Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { DeliveryRow, DeliveryState, Inbox } from '../../warehouse/inbox.ts';
import type { OwnTables, RejectRow, VerificationRow } from '../../warehouse/own-tables.ts';
import { readPictures, type PictureDetails } from './newest-pictures.ts';
import { readRunDetails, type RunDetails } from '../../state/run-history.ts';
import { runFacts, type RunFact } from './run-facts.ts';
import type { PastRun, Problem, SchemaChangeStatus } from './snapshot.ts';
import { problemOf, type StatusParts } from './source-status.ts';
import { momentOf, readRuns, readSchemaChanges } from './stored.ts';

/** What a page about one source, or one resource of it, asks for beside its status. */
export interface DetailsAsked {
  source: string;
  /** Null for all of the source. */
  resource: string | null;
  /** The id of the one run that is shown; absent for a page of the source. */
  run?: string;
  /** True if the reader may see what records and deliveries hold. */
  bodies: boolean;
}

/** More about a source than its status tells, read when it is asked for; the newest of everything first. */
export interface SourceDetails {
  /** Why there is nothing below; null if all was read. */
  problem: Problem | null;
  runs: DetailedRun[];
  /** Each resource's part in the one run that is shown. */
  run: RunPart[];
  rejects: RejectDetails[];
  /** Null if no webhooks are received, or only a resource is asked for that none names. */
  deliveries: DeliveryDetails[] | null;
  schema_changes: SchemaChangeStatus[];
  verifications: VerificationStatus[];
  /** None where the reader may not see what records show. */
  pictures: PictureDetails[];
}

/** What a comparison of the copy with its service has found. */
export interface VerificationStatus extends Pick<
  VerificationRow,
  'resource' | 'mode' | 'verdict' | 'differences' | 'requests'
> {
  ended_at: number | null;
  seconds: number | null;
}

export interface RunPart extends Pick<RunDetails, 'resource' | 'command' | 'mode' | 'status'> {
  facts: RunFact[];
}

export interface DetailedRun extends PastRun {
  resource: string;
}

export interface RejectDetails {
  resource: string;
  reason: string;
  record_id: string | null;
  /** The fault of this one. */
  detail: string;
  first_seen_at: number | null;
  last_seen_at: number | null;
  /** The beginning of the record's text; null if it must not be shown. */
  body: string | null;
  /** Characters of the whole text. */
  length: number;
}

export interface DeliveryDetails {
  seq: number;
  id: string;
  received_at: number | null;
  state: DeliveryState;
  /** Why it is dead or ignored, or what went wrong with the last attempt. */
  reason: string | null;
  attempts: number;
  due_at: number | null;
  kind: string | null;
  resource: string | null;
  record_id: string | null;
  repeats: number;
  /** The beginning of its body; null if it must not be shown. */
  body: string | null;
  /** Bytes of the whole body. */
  length: number;
}

/** Enough to see what goes on; all of it stands in the own tables. */
const RUNS = 60;
const REJECTS = 40;
const DELIVERIES = 40;
const SCHEMA_CHANGES = 60;
const VERIFICATIONS = 8;
const BODY_LETTERS = 2_000;
const PATIENCE_MS = 3_000;

type DetailsParts = Pick<StatusParts, 'source' | 'read' | 'scrub' | 'deliveries'>;

const NOTHING = {
  runs: [],
  run: [],
  rejects: [],
  deliveries: null,
  schema_changes: [],
  verifications: [],
  pictures: [],
};

/** Does not throw, and waits some seconds at most. */
export async function readDetails(parts: DetailsParts, asked: DetailsAsked, clock: Clock): Promise<SourceDetails> {
  try {
    const read = await waitAtMost(clock, PATIENCE_MS, readAll(parts, asked));
    if (read !== null) return read.value;
    throw new Error('the warehouse has not answered for some seconds');
  } catch (error) {
    return { problem: problemOf(error, parts.scrub), ...NOTHING };
  }
}

async function readAll(parts: DetailsParts, asked: DetailsAsked): Promise<SourceDetails> {
  return parts.read(({ own }) => readFrom(own, parts, asked));
}

async function readFrom(own: Kysely<OwnTables>, parts: DetailsParts, asked: DetailsAsked): Promise<SourceDetails> {
  if (asked.run !== undefined) return { problem: null, ...NOTHING, run: await readRun(own, asked.run, parts.scrub) };
  const resources = asked.resource === null ? parts.source.resources : [asked.resource];
  return {
    problem: null,
    runs: await detailedRuns(own, resources, parts.scrub),
    run: [],
    rejects: await readRejectsOf(own, resources, asked.bodies, parts.scrub),
    deliveries: parts.deliveries === null ? null : await deliveriesOf(parts.deliveries, asked, parts.scrub),
    schema_changes: await schemaChanges(own, asked.resource),
    verifications: await verificationsOf(own, resources),
    pictures: asked.bodies ? await readPictures(own, resources, parts.scrub) : [],
  };
}

type Scrub = StatusParts['scrub'];

async function detailedRuns(own: Kysely<OwnTables>, resources: readonly string[], scrub: Scrub) {
  const read = await Promise.all(
    resources.map(async (resource) => {
      const runs = await readRuns(own, resource, RUNS);
      return runs.map((run): DetailedRun => Object.assign({}, run, { resource, error: scrubbed(run.error, scrub) }));
    }),
  );
  return read.flat().toSorted((a, b) => b.started_at - a.started_at);
}

async function readRun(own: Kysely<OwnTables>, id: string, scrub: Scrub): Promise<RunPart[]> {
  const parts = await readRunDetails(own, id);
  return parts.map((part) => {
    const { resource, command, mode, status } = part;
    const facts = runFacts(part).map(({ title, lines }) => ({ title, lines: lines.map(scrub) }));
    return { resource, command, mode, status, facts };
  });
}

function scrubbed(error: Problem | null, scrub: Scrub): Problem | null {
  return error && { ...error, message: scrub(error.message), hint: error.hint && scrub(error.hint) };
}

type StoredReject = Pick<
  RejectRow,
  'resource' | 'reason' | 'record_id' | 'detail' | 'first_seen' | 'last_seen' | 'body'
> & { length: number };

async function readRejectsOf(
  own: Kysely<OwnTables>,
  resources: readonly string[],
  bodies: boolean,
  scrub: Scrub,
): Promise<RejectDetails[]> {
  const rows: StoredReject[] = await own
    .selectFrom('_sync_rejects')
    .select(['resource', 'reason', 'record_id', 'detail', 'first_seen', 'last_seen'])
    .select([
      sql<string>`substr("body", 1, ${sql.lit(bodies ? BODY_LETTERS : 0)})`.as('body'),
      sql<number>`length("body")`.as('length'),
    ])
    .where('resource', 'in', resources)
    .where('resolved_at', 'is', null)
    .orderBy('last_seen', 'desc')
    .limit(REJECTS)
    .execute();
  return rows.map(({ body, first_seen, last_seen, detail, resource, reason, record_id, length }) => ({
    resource,
    reason,
    record_id,
    detail: scrub(detail),
    first_seen_at: momentOf(first_seen),
    last_seen_at: momentOf(last_seen),
    body: bodies ? scrub(body) : null,
    length,
  }));
}

async function deliveriesOf(list: Inbox['list'], { resource, bodies }: DetailsAsked, scrub: Scrub) {
  const rows = await list({ limit: DELIVERIES });
  const named = rows.filter((row) => resource === null || row.resource === resource);
  return named.map((row): DeliveryDetails => deliveryOf(row, bodies, scrub));
}

function deliveryOf(row: DeliveryRow, bodies: boolean, scrub: Scrub): DeliveryDetails {
  const { seq, state, attempts, kind, resource, record_id, repeats } = row;
  return {
    seq,
    id: scrub(row.delivery_id),
    received_at: momentOf(row.received_at),
    state,
    reason: row.reason === null ? null : scrub(row.reason),
    attempts,
    due_at: momentOf(row.due_at),
    kind,
    resource,
    record_id,
    repeats,
    body: bodies ? scrub(Buffer.from(row.body).toString('utf8', 0, BODY_LETTERS)) : null,
    length: row.body.length,
  };
}

async function schemaChanges(own: Kysely<OwnTables>, resource: string | null): Promise<SchemaChangeStatus[]> {
  const changes = await readSchemaChanges(own, SCHEMA_CHANGES * (resource === null ? 1 : 4));
  return changes.filter((change) => resource === null || change.resource === resource).slice(0, SCHEMA_CHANGES);
}

async function verificationsOf(own: Kysely<OwnTables>, resources: readonly string[]): Promise<VerificationStatus[]> {
  const rows = await own
    .selectFrom('_sync_verifications')
    .select(['resource', 'mode', 'verdict', 'began_at', 'ended_at', 'differences', 'requests'])
    .where('resource', 'in', resources)
    .orderBy('verification_id', 'desc')
    .limit(VERIFICATIONS)
    .execute();
  return rows.map(({ began_at, ended_at, resource, mode, verdict, differences, requests }) => {
    const [began, ended] = [momentOf(began_at), momentOf(ended_at)];
    const seconds = began === null || ended === null ? null : (ended - began) / 1_000;
    return { resource, mode, verdict, differences, requests, ended_at: ended, seconds };
  });
}
