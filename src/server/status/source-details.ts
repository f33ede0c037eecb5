// Details of one source that a page shows on request: runs, rejected records, deliveries, schema changes.
import type { Kysely } from 'kysely';
import type { DeliveryRow, Inbox } from '../../database/inbox.ts';
import type { OwnTables } from '../../database/own-tables.ts';
import { readRuns } from '../../database/state/runs.ts';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { Problem } from '../source-activity.ts';
import { type PastRun, type SchemaChangeStatus, scrubTexts } from './snapshot.ts';
import { type StatusParts, toProblem } from './source-status.ts';
import { parseStoredTime, readSchemaChanges, toPastRun } from './read-stored-status.ts';

/** Details of a source, the newest first; read only on request. */
export interface SourceDetails {
  /** Why nothing was read; null if all was. */
  problem: Problem | null;
  runs: PastRun[];
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

/** The columns of a stored delivery that are shown unchanged. */
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

const NOTHING = { problem: null, runs: [], rejects: [], deliveries: null, schema_changes: [] };

/** Does not throw, and waits some seconds at most. */
export async function readDetails(parts: StatusParts, clock: Clock): Promise<SourceDetails> {
  try {
    const reading = parts.read(({ own }) => readAll(own, parts));
    const read = await waitAtMost(clock, TIMEOUT_MS, reading);
    if (read !== null) return scrubTexts(read.value, parts.scrub);
    throw new Error('the warehouse has not answered for some seconds');
  } catch (error) {
    return { ...NOTHING, problem: toProblem(error, parts.scrub) };
  }
}

async function readAll(own: Kysely<OwnTables>, { source, deliveries }: StatusParts): Promise<SourceDetails> {
  const { resources } = source;
  const runs = await Promise.all(resources.map((each) => readRuns(own, { resource: each, limit: MAX_RUNS })));
  return {
    ...NOTHING,
    runs: runs
      .flat()
      .map(toPastRun)
      .toSorted((a, b) => b.started_at - a.started_at),
    rejects: await readRejects(own, resources),
    deliveries: deliveries && (await readDeliveries(deliveries)),
    schema_changes: await readSchemaChanges(own, MAX_SCHEMA_CHANGES),
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

async function readDeliveries(list: Inbox['list']): Promise<DeliveryDetails[]> {
  const rows = await list({ limit: MAX_DELIVERIES });
  return rows.map(({ seq, state, reason, attempts, kind, resource, record_id, repeats, received_at, due_at }) => {
    const times = { received_at: parseStoredTime(received_at), due_at: parseStoredTime(due_at) };
    return Object.assign({ seq, state, reason, attempts, kind, resource, record_id, repeats }, times);
  });
}
