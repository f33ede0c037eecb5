// Details of one source that a page shows on request: runs, rejected records, deliveries, schema changes.
import type { Kysely } from 'kysely';
import type { DeliveryRow, Inbox } from '../../database/inbox.ts';
import type { OwnTables } from '../../database/own-tables.ts';
import { MAX_RUN_REJECTS, readRunDetails, readRuns, type RunDetails } from '../../database/state/runs.ts';
import type { Clock } from '../../model/clock.ts';
import { formatColumnChange } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { waitAtMost } from '../../model/waiting.ts';
import { countOf, countText, formatBytes, formatDelay, NONE } from '../../observe/figures.ts';
import type { Problem } from '../source-activity.ts';
import { type PastRun, type SchemaChangeStatus, scrubTexts } from './snapshot.ts';
import { type StatusParts, toProblem } from './source-status.ts';
import { parseStoredTime, readSchemaChanges, toPastRun } from './stored.ts';

/** What a page about one source, or one resource of it, shows besides its status. */
export interface DetailsQuery {
  source: string;
  /** Null for the whole source. */
  resource: string | null;
  /** The id of the run that is shown; absent for a page of the source. */
  run?: string;
}

/** Details of a source, the newest first; read only on request. */
export interface SourceDetails {
  /** Why nothing was read; null if all was. */
  problem: Problem | null;
  runs: PastRun[];
  /** The part of each resource in the requested run. */
  run: RunDetails[];
  rejects: RejectDetails[];
  deliveries: DeliveryDetails[] | null;
  schema_changes: SchemaChangeStatus[];
}

export interface RejectDetails {
  resource: string;
  reason: string;
  record_id: string | null;
  detail: string;
  last_seen_at: number | null;
}

type ShownDelivery = Pick<
  DeliveryRow,
  'seq' | 'state' | 'reason' | 'attempts' | 'kind' | 'resource' | 'record_id' | 'repeats'
>;

export interface DeliveryDetails extends ShownDelivery {
  received_at: number | null;
  due_at: number | null;
}

const MAX_RUNS = 60;
const MAX_REJECTS = 40;
const MAX_DELIVERIES = 40;
const MAX_SCHEMA_CHANGES = 60;
const TIMEOUT_MS = 3_000;

const NOTHING = { problem: null, runs: [], run: [], rejects: [], deliveries: null, schema_changes: [] };

/** Does not throw, and waits some seconds at most. */
export async function readDetails(parts: StatusParts, query: DetailsQuery, clock: Clock): Promise<SourceDetails> {
  try {
    const reading = parts.read(({ own }) => readAll(own, parts, query));
    const read = await waitAtMost(clock, TIMEOUT_MS, reading);
    if (read !== null) return scrubTexts(read.value, parts.scrub);
    throw new Error('the warehouse has not answered for some seconds');
  } catch (error) {
    return { ...NOTHING, problem: toProblem(error, parts.scrub) };
  }
}

async function readAll(
  own: Kysely<OwnTables>,
  { source, deliveries }: StatusParts,
  { resource, run }: DetailsQuery,
): Promise<SourceDetails> {
  if (run !== undefined) return { ...NOTHING, run: await readRunDetails(own, run) };
  const resources = resource === null ? source.resources : [resource];
  const runs = await Promise.all(resources.map((each) => readRuns(own, { resource: each, limit: MAX_RUNS })));
  const changes = await readSchemaChanges(own, MAX_SCHEMA_CHANGES * (resource === null ? 1 : 4));
  return {
    ...NOTHING,
    runs: runs
      .flat()
      .map(toPastRun)
      .toSorted((a, b) => b.started_at - a.started_at),
    rejects: await readRejects(own, resources),
    deliveries: deliveries && (await readDeliveries(deliveries, resource)),
    schema_changes: changes
      .filter((change) => resource === null || change.resource === resource)
      .slice(0, MAX_SCHEMA_CHANGES),
  };
}

async function readRejects(own: Kysely<OwnTables>, resources: readonly string[]): Promise<RejectDetails[]> {
  const rows = await own
    .selectFrom('_sync_rejects')
    .select(['resource', 'reason', 'record_id', 'detail', 'last_seen'])
    .where('resource', 'in', resources)
    .where('resolved_at', 'is', null)
    .orderBy('last_seen', 'desc')
    .limit(MAX_REJECTS)
    .execute();
  return rows.map(({ last_seen, ...reject }) => Object.assign(reject, { last_seen_at: parseStoredTime(last_seen) }));
}

async function readDeliveries(list: Inbox['list'], only: string | null): Promise<DeliveryDetails[]> {
  const rows = await list({ limit: MAX_DELIVERIES });
  return rows
    .filter(({ resource }) => only === null || resource === only)
    .map(({ seq, state, reason, attempts, kind, resource, record_id, repeats, received_at, due_at }) => {
      const times = { received_at: parseStoredTime(received_at), due_at: parseStoredTime(due_at) };
      const columns = { seq, state, reason, attempts, kind, resource, record_id, repeats };
      return Object.assign(columns, times);
    });
}

/** A fact about one resource's part in a run, as lines under a title. */
interface RunFact {
  title: string;
  lines: string[];
}

/** The CLI and the page show the same facts. */
export function runFacts(part: RunDetails): RunFact[] {
  const { error, rejects, rejected } = part;
  const began = `${timestampText(part.started_at)} UTC, ${formatDuration(part)}`;
  const before = `${countText(part.runs)} runs that changed nothing, the first at ${timestampText(part.first_started_at)} UTC`;
  const sum = `${countOf(part.all_requests, 'request')}, ${formatBytes(part.all_bytes)}`;
  const facts: RunFact[] = [
    { title: 'began', lines: [began] },
    { title: 'merged', lines: part.runs === 1 ? [] : [`${before}: ${sum} in all`] },
    { title: 'records', lines: [formatRecords(part)] },
    { title: 'requests', lines: [formatRequests(part)] },
    { title: 'error', lines: error === null ? [] : [`${error.message} [${error.code}]`, ...remedy(error.hint)] },
    { title: 'request id', lines: error?.request_id == null ? [] : [error.request_id] },
    ...part.warnings.map(({ code, message, hint, accepted }) => {
      return { title: accepted === true ? 'accepted' : 'warning', lines: [`${message} [${code}]`, ...remedy(hint)] };
    }),
    {
      title: 'schema',
      lines: part.schema_changes.map((change) => `${change.table}.${change.column}: ${formatColumnChange(change)}`),
    },
    {
      title: 'rejected',
      lines: rejects.map(
        ({ reason, record_id, detail, is_resolved }) =>
          `${reason}  ${record_id ?? NONE}  ${detail}${is_resolved ? ' (accepted since, or no longer listed)' : ''}`,
      ),
    },
  ];
  if (rejects.length === MAX_RUN_REJECTS && rejected > MAX_RUN_REJECTS)
    facts.at(-1)?.lines.push(`and more, ${countText(rejected)} in all: see _sync_rejects`);
  return facts.filter(({ lines }) => lines.length > 0);
}

function formatDuration({ started_at, finished_at }: RunDetails): string {
  return finished_at === null ? 'in progress' : `took ${formatDelay(finished_at - started_at)}`;
}

function remedy(hint: string | null): string[] {
  return hint === null ? [] : [`→ ${hint}`];
}

function formatRecords({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} rejected`] : []),
  ];
  return `${countText(records)} on ${countOf(pages, 'page')}: ${parts.join(', ')}`;
}

function formatRequests({ requests, retries, limited, bytes, outcomes, runs }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${countText(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome${runs > 1 ? ', of all runs' : ''}: ${counted.join(', ')}`;
  return `${countText(requests)}, ${countText(retries)} retried, ${countText(limited)} limited, ${formatBytes(bytes)}${by}`;
}
