import { type Kysely, sql } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { formatColumnChange } from '../../model/schema-change.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { waitAtMost } from '../../model/waiting.ts';
import { bytesText, countOf, countText, delayText, NONE } from '../../observe/figures.ts';
import { newestPictures, type ShownPicture } from '../../database/state/files.ts';
import { MOST_REJECTS, readRunDetails, type RunDetails } from '../../database/state/run-history.ts';
import type { DeliveryRow, DeliveryState, Inbox } from '../../database/inbox.ts';
import type { OwnTables, RejectRow } from '../../database/own-tables.ts';
import { type PastRun, type Problem, type SchemaChangeStatus, scrubTexts } from './snapshot.ts';
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
  /** None where the reader may not see what records show. */
  pictures: PictureDetails[];
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
const BODY_LETTERS = 2_000;
const PATIENCE_MS = 3_000;

type DetailsParts = Pick<StatusParts, 'source' | 'read' | 'scrub' | 'deliveries'>;

const NOTHING = {
  runs: [],
  run: [],
  rejects: [],
  deliveries: null,
  schema_changes: [],
  pictures: [],
};

/** Does not throw, and waits some seconds at most. */
export async function readDetails(parts: DetailsParts, asked: DetailsAsked, clock: Clock): Promise<SourceDetails> {
  try {
    const reading = parts.read(({ own }) => readFrom(own, parts, asked));
    const read = await waitAtMost(clock, PATIENCE_MS, reading);
    if (read !== null) return scrubTexts(read.value, parts.scrub);
    throw new Error('the warehouse has not answered for some seconds');
  } catch (error) {
    return { problem: problemOf(error, parts.scrub), ...NOTHING };
  }
}

async function readFrom(own: Kysely<OwnTables>, parts: DetailsParts, asked: DetailsAsked): Promise<SourceDetails> {
  if (asked.run !== undefined) return { problem: null, ...NOTHING, run: await readRun(own, asked.run) };
  const resources = asked.resource === null ? parts.source.resources : [asked.resource];
  return {
    problem: null,
    runs: await detailedRuns(own, resources),
    run: [],
    rejects: await readRejectsOf(own, resources, asked.bodies),
    deliveries: parts.deliveries === null ? null : await deliveriesOf(parts.deliveries, asked),
    schema_changes: await schemaChanges(own, asked.resource),
    pictures: asked.bodies ? await readPictures(own, resources) : [],
  };
}

async function detailedRuns(own: Kysely<OwnTables>, resources: readonly string[]) {
  const read = await Promise.all(
    resources.map(async (resource) => {
      const runs = await readRuns(own, resource, RUNS);
      return runs.map((run): DetailedRun => Object.assign(run, { resource }));
    }),
  );
  return read.flat().toSorted((a, b) => b.started_at - a.started_at);
}

async function readRun(own: Kysely<OwnTables>, id: string): Promise<RunPart[]> {
  const parts = await readRunDetails(own, id);
  return parts.map((part) => {
    const { resource, command, mode, status } = part;
    return { resource, command, mode, status, facts: runFacts(part) };
  });
}

type StoredReject = Pick<RejectRow, 'resource' | 'reason' | 'record_id' | 'detail' | 'last_seen' | 'body'> & {
  length: number;
};

async function readRejectsOf(
  own: Kysely<OwnTables>,
  resources: readonly string[],
  bodies: boolean,
): Promise<RejectDetails[]> {
  const rows: StoredReject[] = await own
    .selectFrom('_sync_rejects')
    .select(['resource', 'reason', 'record_id', 'detail', 'last_seen'])
    .select([
      sql<string>`substr("body", 1, ${sql.lit(bodies ? BODY_LETTERS : 0)})`.as('body'),
      sql<number>`length("body")`.as('length'),
    ])
    .where('resource', 'in', resources)
    .where('resolved_at', 'is', null)
    .orderBy('last_seen', 'desc')
    .limit(REJECTS)
    .execute();
  return rows.map(({ body, last_seen, ...reject }) =>
    Object.assign(reject, { last_seen_at: momentOf(last_seen), body: bodies ? body : null }),
  );
}

async function deliveriesOf(list: Inbox['list'], { resource, bodies }: DetailsAsked) {
  const rows = await list({ limit: DELIVERIES });
  const named = rows.filter((row) => resource === null || row.resource === resource);
  return named.map((row): DeliveryDetails => deliveryOf(row, bodies));
}

function deliveryOf(row: DeliveryRow, bodies: boolean): DeliveryDetails {
  const { seq, state, attempts, kind, resource, record_id, repeats } = row;
  return {
    seq,
    id: row.delivery_id,
    received_at: momentOf(row.received_at),
    state,
    reason: row.reason,
    attempts,
    due_at: momentOf(row.due_at),
    kind,
    resource,
    record_id,
    repeats,
    body: bodies ? Buffer.from(row.body).toString('utf8', 0, BODY_LETTERS) : null,
    length: row.body.length,
  };
}

async function schemaChanges(own: Kysely<OwnTables>, resource: string | null): Promise<SchemaChangeStatus[]> {
  const changes = await readSchemaChanges(own, SCHEMA_CHANGES * (resource === null ? 1 : 4));
  return changes.filter((change) => resource === null || change.resource === resource).slice(0, SCHEMA_CHANGES);
}

/** A picture that a record shows now. */
export interface PictureDetails extends Pick<ShownPicture, 'resource' | 'record_id' | 'sha256' | 'bytes'> {
  /** Pixels; null if they are not known. */
  width: number | null;
  height: number | null;
  /** Since when the record shows it, as far as the copy saw. */
  seen_at: number | null;
}

const PICTURES = 24;

/** Those that came last of all these resources together, the newest first. */
async function readPictures(own: Kysely<OwnTables>, resources: readonly string[]): Promise<PictureDetails[]> {
  const all: ShownPicture[] = [];
  for (const resource of resources) all.push(...(await newestPictures(own, resource, PICTURES)));
  const newest = all.toSorted((a, b) => (a.valid_from < b.valid_from ? 1 : -1)).slice(0, PICTURES);
  return newest.map(({ resource, record_id, sha256, bytes, width, height, valid_from }) => {
    return { resource, record_id, sha256, bytes, width, height, seen_at: momentOf(valid_from) };
  });
}

/** What there is to know of one resource's part in a run, as lines under a title: the CLI and the page show the same. */
interface RunFact {
  title: string;
  lines: string[];
}

export function runFacts(part: RunDetails): RunFact[] {
  const changes = part.schema_changes.map(
    ({ table, column, ...change }) => `${table}.${column}: ${formatColumnChange(change)}`,
  );
  const all = [
    ...timeFacts(part),
    fact('records', recordsText(part)),
    fact('requests', requestsText(part)),
    ...errorFacts(part),
    ...part.warnings.map(({ code, message, hint, accepted }) =>
      fact(accepted === true ? 'accepted' : 'warning', `${message} [${code}]`, `→ ${hint}`),
    ),
    fact('schema', ...changes),
    fact('set aside', ...rejectLines(part)),
  ];
  return all.filter(({ lines }) => lines.length > 0);
}

function fact(title: string, ...lines: string[]): RunFact {
  return { title, lines };
}

function timeFacts({ started_at, finished_at, runs, first_started_at, ...part }: RunDetails): RunFact[] {
  const took = finished_at === null ? 'is under way' : `took ${delayText(finished_at - started_at)}`;
  const began = fact('began', `${timestampText(started_at)} UTC, ${took}`);
  if (runs === 1) return [began];
  const before = `${countText(runs)} runs that changed nothing, the first at ${timestampText(first_started_at)} UTC`;
  const sum = `${countOf(part.all_requests, 'request')}, ${bytesText(part.all_bytes)}`;
  return [began, fact('stands for', `${before}: ${sum} in all`)];
}

function recordsText({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} set aside`] : []),
  ];
  return `${countText(records)} on ${countOf(pages, 'page')}: ${parts.join(', ')}`;
}

function requestsText({ requests, retries, limited, bytes, outcomes, runs }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${countText(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome${runs > 1 ? ', of all runs' : ''}: ${counted.join(', ')}`;
  return `${countText(requests)}, ${countText(retries)} retried, ${countText(limited)} limited, ${bytesText(bytes)}${by}`;
}

function errorFacts({ error }: RunDetails): RunFact[] {
  if (error === null) return [];
  const lines = [`${error.message} [${error.code}]`, ...(error.hint === null ? [] : [`→ ${error.hint}`])];
  return [fact('error', ...lines), fact('request id', ...(error.request_id === null ? [] : [error.request_id]))];
}

function rejectLines({ rejects, rejected }: RunDetails): string[] {
  const lines = rejects.map(
    ({ reason, record_id, detail, is_resolved }) =>
      `${reason}  ${record_id ?? NONE}  ${detail}${is_resolved ? ' (came in well since, or is no longer listed)' : ''}`,
  );
  const isCut = rejects.length === MOST_REJECTS && rejected > MOST_REJECTS;
  return isCut ? [...lines, `and more, of ${countText(rejected)}: all stand in _sync_rejects`] : lines;
}
