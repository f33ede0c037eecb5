import { formatColumnChange } from '../../model/schema-change.ts';
import type { AlertKind } from '../../settings/alerts-schema.ts';
import { endedStatus, isOfFiles } from '../../sync/warnings.ts';
import { checkedOf } from '../status/attention.ts';
import type { PastRun, ResourceStatus, SchemaChangeStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';

/** Something that a person may want to be told of; times in epoch milliseconds. */
export interface Condition {
  kind: AlertKind;
  source: string;
  resource: string | null;
  since: number;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  /** The remedy. */
  next: string | null;
  /** The command that does it. */
  command: string | null;
  /** Those with the same kind and cause are told of together. */
  cause: string;
  /** How many: of records that are set aside, all of them. */
  count: number;
  /** Tells apart what is told one by one of the same kind and resource; empty if there is one at most. */
  detail: string;
}

/** All conditions of one snapshot, and what can be told from it at all. */
export interface Judgement {
  conditions: Condition[];
  /** Sources of which something is known now: only there can a condition be over. */
  readable: ReadonlySet<string>;
  /** Resources that were copied whole: from then on a change of their tables is news. */
  copied: { source: string; resource: string; lastChangeAt: number }[];
}

/** The kind of what a check of the page finds; what is not here is shown there and told to nobody. */
const OF_CHECK: Readonly<Record<string, AlertKind>> = {
  refused: 'failed',
  unreachable: 'failed',
  inboxUnreadable: 'failed',
  overdue: 'overdue',
  heldDeletes: 'held_deletes',
  deadDeliveries: 'dead_deliveries',
  rejects: 'rejects',
  filesStopped: 'files',
  filesMissing: 'files',
  apiEnding: 'deprecation',
};

/** So many files of a resource that could not be fetched are no longer some that happen to be broken. */
const MANY_FAILED = 25;

/** The problem of a warehouse that was not opened yet, which is none. */
const OPENING = 'warehouse_opening';

/** Judges as the page does. Pure. */
export function judge(snapshot: StatusSnapshot): Judgement {
  const bySource = new Map(snapshot.sources.map((source) => [source.source, source]));
  const readable = snapshot.sources.filter(({ warehouse }) => warehouse.problem === null);
  const refused = snapshot.refused.map(({ source }) => source);
  const found = checkedOf(snapshot).flatMap(({ check, source, resource, ...said }): Condition[] => {
    const kind = OF_CHECK[check];
    if (kind === undefined) return [];
    const status = bySource.get(source);
    // At the start of `serve`, or of a source that was changed.
    if (check === 'unreachable' && status?.warehouse.problem?.code === OPENING) return [];
    // Figures of a warehouse that cannot be read any more are no news.
    if (resource !== null && status?.warehouse.problem !== null) return [];
    const of = status?.resources.find((each) => each.resource === resource);
    if (check === 'filesMissing' && (of?.files?.failed ?? 0) < MANY_FAILED) return [];
    const { what, next, command } = said;
    const more = { detail: detailOf(kind, status), count: countOfRejects(of), since: sinceOf(kind, of, snapshot.at) };
    return [{ kind, source, resource, what, next, command, cause: check, ...more }];
  });
  return {
    conditions: [...found, ...readable.flatMap(runConditions), ...readable.flatMap(changeConditions)],
    readable: new Set([...readable.map(({ source }) => source), ...refused]),
    copied: readable.flatMap(copiedResources),
  };
}

function detailOf(kind: AlertKind, status: SourceStatus | undefined): string {
  const lifetime = kind === 'deprecation' ? status?.api.lifetime : null;
  if (lifetime === null || lifetime === undefined) return '';
  return lifetime.sunset_at === null ? 'deprecated' : new Date(lifetime.sunset_at).toISOString().slice(0, 10);
}

function countOfRejects(status: ResourceStatus | undefined): number {
  return status?.rejects.reduce((sum, { count }) => sum + count, 0) ?? 1;
}

function sinceOf(kind: AlertKind, status: ResourceStatus | undefined, now: number): number {
  if (kind === 'overdue') return status?.schedule.overdue_at ?? now;
  if (kind === 'held_deletes') return status?.suspects.held_since ?? now;
  return now;
}

type EndedRun = PastRun & { status: 'ok' | 'partial' | 'failed' };

/** Runs that were put off, stopped or are under way say nothing new about a resource. */
function hasDecided(run: PastRun): run is EndedRun {
  return run.status === 'ok' || run.status === 'partial' || run.status === 'failed';
}

/** Of its files a kind of its own tells, from a number on. */
function besideFiles(run: EndedRun): EndedRun {
  if (run.status === 'failed' || !run.warnings.some(isOfFiles)) return run;
  const warnings = run.warnings.filter((warning) => !isOfFiles(warning));
  return { ...run, warnings, status: endedStatus(run, warnings) };
}

/** What the last run of each resource that came to its end says. */
function runConditions({ source, resources }: SourceStatus): Condition[] {
  return resources.flatMap(({ resource, runs }) => {
    const ended = runs.filter(hasDecided).map(besideFiles);
    const [last] = ended;
    if (last === undefined || last.status === 'ok') return [];
    const { status: kind } = last;
    const before = ended.findIndex(({ status }) => status !== kind);
    const since = (before === -1 ? ended.at(-1) : ended[before - 1])?.started_at ?? last.started_at;
    const rest = { kind, source, resource, since, command: null, count: 1, detail: '' };
    return [kind === 'failed' ? { ...rest, ...failureOf(last) } : { ...rest, ...doubtOf(last) }];
  });
}

type Said = Pick<Condition, 'what' | 'next' | 'cause'>;

function failureOf({ error }: PastRun): Said {
  if (error === null) return { what: 'The last run failed', next: 'see the log', cause: '' };
  return { what: `The last run failed: ${error.message} [${error.code}]`, next: error.hint, cause: error.code };
}

function doubtOf({ warnings, rejected, held }: PastRun): Said {
  const warning = warnings.find(({ accepted }) => accepted !== true);
  if (warning !== undefined) {
    return { what: `The last run was partial: ${warning.message}`, next: warning.hint, cause: warning.code };
  }
  const why = rejected > 0 ? ': records were set aside' : held > 0 ? ': deletes were held back' : '';
  return { what: `The last run was partial${why}`, next: 'see the page or content-sync status', cause: why };
}

/** Each change of a table of a resource that was copied whole before. */
function changeConditions({ source, resources, schema_changes }: SourceStatus): Condition[] {
  const copied = new Set(resources.filter(isCopied).map(({ resource }) => resource));
  return schema_changes.filter(({ resource }) => copied.has(resource)).map((change) => changeCondition(source, change));
}

function changeCondition(source: string, change: SchemaChangeStatus): Condition {
  const { resource, changed_at: since } = change;
  const rest = { next: null, command: null, count: 1, cause: resource, detail: '' };
  return { kind: 'schema_change', source, resource, since, what: changeText(change), ...rest };
}

function changeText({ table, column, from, to, kind, ...change }: SchemaChangeStatus): string {
  if (kind !== undefined) return `${table}.${column}: ${formatColumnChange({ from, to, kind, ...change })}`;
  return from === null ? `${table}.${column} is new (${to})` : `${table}.${column} was ${from} and is ${to}`;
}

function isCopied({ last_full_at }: ResourceStatus): boolean {
  return last_full_at !== null;
}

function copiedResources({ source, resources, schema_changes }: SourceStatus): Judgement['copied'] {
  return resources.filter(isCopied).map(({ resource, last_full_at }) => {
    const changes = schema_changes.filter((change) => change.resource === resource).map((each) => each.changed_at);
    return { source, resource, lastChangeAt: Math.max(last_full_at ?? 0, ...changes) };
  });
}

/** What a condition is remembered by, in the tables of its source. */
export function alertOf({ kind, resource, detail }: Pick<Condition, 'kind' | 'resource' | 'detail'>): string {
  return [kind, resource, detail].filter((part) => part !== null && part !== '').join(' ');
}

/** True where a resource is late because its runs fail: one thing to tell, not two. */
export function isConsequence(condition: Condition, others: readonly Condition[]): boolean {
  if (condition.kind !== 'overdue') return false;
  return others.some(
    ({ kind, source, resource }) => kind === 'failed' && source === condition.source && resource === condition.resource,
  );
}
