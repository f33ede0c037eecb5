import { formatColumnChange } from '../../model/schema-change.ts';
import type { AlertKind } from '../../settings/alerts-schema.ts';
import { endedStatus, isOfFiles } from '../../sync/warnings.ts';
import { checkedOf } from '../status/attention.ts';
import type { PastRun, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';

/** Something that a channel may report; times in epoch milliseconds. */
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
  /** A message groups conditions with the same kind and cause. */
  cause: string;
  /** Of rejected records, their number; else 1. */
  count: number;
  /** Distinguishes conditions of the same kind and resource; empty if there is at most one. */
  detail: string;
}

/** All conditions of one snapshot. */
export interface Judgement {
  conditions: Condition[];
  /** Sources whose state is known: only there can a condition have ended. */
  readable: ReadonlySet<string>;
  /** Resources with a complete copy: from then on a change of their tables is reported. */
  copied: { source: string; resource: string; lastChangeAt: number }[];
}

/** The kind of alert by the check of the page; the page alone shows findings of other checks. */
const KIND_BY_CHECK: Readonly<Record<string, AlertKind>> = {
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

/** Fewer failed files of a resource may just be broken at the service. */
const MIN_FAILED_FILES = 25;

/** The code of a warehouse that is not open yet, which is no problem. */
const OPENING = 'warehouse_opening';

/** Finds the conditions in what the page shows. Pure. */
export function judge(snapshot: StatusSnapshot): Judgement {
  const readable = snapshot.sources.filter(({ warehouse }) => warehouse.problem === null);
  const complete = readable.flatMap(({ source, resources, schema_changes }) =>
    resources
      .filter(({ last_full_at }) => last_full_at !== null)
      .map(({ resource, last_full_at }) => {
        const changes = schema_changes.filter((change) => change.resource === resource);
        const lastChangeAt = Math.max(last_full_at ?? 0, ...changes.map(({ changed_at }) => changed_at));
        return { copied: { source, resource, lastChangeAt }, changes };
      }),
  );
  const changed = complete.flatMap(({ copied: { source, resource }, changes }) =>
    changes.map(({ table, column, changed_at: since, ...change }): Condition => {
      const what = `${table}.${column}: ${formatColumnChange(change)}`;
      const rest = { next: null, command: null, cause: resource, count: 1, detail: '' };
      return { kind: 'schema_change', source, resource, since, what, ...rest };
    }),
  );
  return {
    conditions: [...findConditions(snapshot), ...readable.flatMap(judgeRuns), ...changed],
    readable: new Set([...readable, ...snapshot.refused].map(({ source }) => source)),
    copied: complete.map(({ copied }) => copied),
  };
}

/** What the checks of the page find. */
function findConditions(snapshot: StatusSnapshot): Condition[] {
  return checkedOf(snapshot).flatMap(({ check, source, resource, what, next, command }): Condition[] => {
    const kind = KIND_BY_CHECK[check];
    const status = snapshot.sources.find((each) => each.source === source);
    const problem = status?.warehouse.problem ?? null;
    const of = status?.resources.find((each) => each.resource === resource);
    if (kind === undefined || (check === 'unreachable' && problem?.code === OPENING)) return [];
    // What an unreadable warehouse held when it was last read is out of date.
    if (resource !== null && problem !== null) return [];
    if (check === 'filesMissing' && (of?.files?.failed ?? 0) < MIN_FAILED_FILES) return [];
    const sunset = status?.api.lifetime?.sunset_at ?? null;
    const ending = sunset === null ? 'deprecated' : new Date(sunset).toISOString().slice(0, 10);
    const began = { overdue: of?.schedule.overdue_at, held_deletes: of?.suspects.held_since };
    const since = (kind === 'overdue' || kind === 'held_deletes' ? began[kind] : null) ?? snapshot.at;
    const count = kind === 'rejects' ? (of?.rejects.reduce((sum, reject) => sum + reject.count, 0) ?? 0) : 1;
    const detail = kind === 'deprecation' ? ending : '';
    return [{ kind, source, resource, what, next, command, cause: check, count, since, detail }];
  });
}

/** Alerts of kind `files` report the warnings about files. */
function withoutFiles(run: PastRun): PastRun {
  if (run.status === 'failed' || !run.warnings.some(isOfFiles)) return run;
  const warnings = run.warnings.filter((warning) => !isOfFiles(warning));
  return { ...run, warnings, status: endedStatus(run, warnings) };
}

/** What the last run of each resource says: one that was deferred or interrupted, or is in progress, says nothing new. */
function judgeRuns({ source, resources }: SourceStatus): Condition[] {
  return resources.flatMap(({ resource, runs }): Condition[] => {
    const ended = runs.filter(({ status }) => ['ok', 'partial', 'failed'].includes(status)).map(withoutFiles);
    const [last] = ended;
    if (last === undefined || last.status === 'ok') return [];
    const kind = last.status === 'failed' ? 'failed' : 'partial';
    const before = ended.findIndex(({ status }) => status !== kind);
    const since = ended.at(before === -1 ? -1 : before - 1)?.started_at ?? last.started_at;
    return [{ kind, source, resource, since, command: null, count: 1, detail: '', ...explainRun(last, kind) }];
  });
}

function explainRun(
  { error, warnings, rejected, held }: PastRun,
  kind: 'failed' | 'partial',
): Pick<Condition, 'what' | 'next' | 'cause'> {
  const reason = kind === 'failed' ? error : warnings.find(({ accepted }) => accepted !== true);
  const what = kind === 'failed' ? 'The last run failed' : 'The last run was partial';
  if (reason) {
    const code = kind === 'failed' ? ` [${reason.code}]` : '';
    return { what: `${what}: ${reason.message}${code}`, next: reason.hint, cause: reason.code };
  }
  const why = rejected > 0 ? ': records were set aside' : held > 0 ? ': deletes were held back' : '';
  return { what: `${what}${kind === 'failed' ? '' : why}`, next: 'see the page or content-sync status', cause: why };
}

/** The name under which the warehouse of the source remembers a condition. */
export function alertOf({ kind, resource, detail }: Pick<Condition, 'kind' | 'resource' | 'detail'>): string {
  return [kind, resource, detail].filter((part) => part !== null && part !== '').join(' ');
}
