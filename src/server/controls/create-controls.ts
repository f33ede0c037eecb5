import type { Logger } from 'pino';
import { parentOf } from '../../config/profile/request-fields.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { lastRun } from '../../database/state/runs.ts';
import { type Pause, pauseResources, readPauses, resumeResources } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { formatAge, countOf } from '../../observe/figures.ts';
import { overallStatus, type RunReport } from '../../sync/report.ts';
import type { SourceSupervisor } from '../source-supervisor.ts';
import type { Scheduler } from '../schedule/scheduler.ts';
import { forwardToLeader } from './serve-connection.ts';
import {
  type Control,
  type ControlAnswer,
  type ControlOrigin,
  type ControlRequest,
  type ControlResult,
  done,
  failed,
  originText,
  refused,
  type RequestOf,
} from './control-request.ts';
import { decideDeletes, decidedText } from './decide-deletes.ts';
import { hurryDeliveries, replayDeliveries, replayedText } from './replay-deliveries.ts';

interface ControlsOptions {
  /** The supervisor of a source; undefined if this process does not keep it. */
  supervisor: (source: string) => SourceSupervisor | undefined;
  /** Reads the config again. */
  reload: (origin: ControlOrigin) => Promise<ControlAnswer>;
  clock: Clock;
  log: Logger;
}

/** Carries out the requests of users. Each is one line of the log. */
export function createControls(options: ControlsOptions): Control {
  return async (request, origin) => {
    const begun = await begin(options, request, origin).catch((error: unknown): ControlResult => {
      return { answer: failed(error), report: null };
    });
    // No caller may wait for the report.
    begun.report?.catch(() => undefined);
    const { done: isDone, message, code } = begun.answer;
    const line = { control: request, ...origin, done: isDone, code, answer: message };
    options.log[isDone ? 'info' : 'warn'](line, 'control');
    return begun;
  };
}

async function begin(options: ControlsOptions, request: ControlRequest, origin: ControlOrigin): Promise<ControlResult> {
  if (request.action === 'reload') return { answer: await options.reload(origin), report: null };
  const supervisor = options.supervisor(request.source);
  if (supervisor === undefined) {
    const hint = 'see the names in the config; after a change of it, content-sync reload';
    const message = `the running process keeps no source "${request.source}"`;
    return { answer: refused('unknown_source', message, hint), report: null };
  }
  const { source } = supervisor;
  // Only the leader can do these. A request from the database was already passed on to the leader.
  const needsLeader = request.action === 'sync' || request.action === 'retry';
  if (needsLeader && !supervisor.isLed && origin.via !== 'database') {
    const elsewhere = forwardToLeader(source.warehouse, options.clock);
    if (elsewhere !== null) return elsewhere(request, origin);
  }
  const resources = chooseResources(source, 'resource' in request ? request.resource : undefined);
  const warehouse = await openWarehouse(source.warehouse, options.clock);
  try {
    const parts: ControlParts = {
      supervisor,
      warehouse,
      clock: options.clock,
      resources,
      what: describe(source, request),
    };
    if (request.action === 'sync') return await beginSync(parts, request);
    return { answer: await carryOut(parts, request, origin), report: null };
  } finally {
    await warehouse.close();
  }
}

interface ControlParts {
  supervisor: SourceSupervisor;
  /** Opened for this request: the source itself may be closed or busy. */
  warehouse: Warehouse;
  clock: Clock;
  /** The requested resources. */
  resources: readonly string[];
  /** `blog`, or `blog content`. */
  what: string;
}

function describe({ name }: SourceSettings, request: ControlRequest): string {
  return 'resource' in request && request.resource !== undefined ? `${name} ${request.resource}` : name;
}

/** Throws `SyncError('unknown_resource')`. */
function chooseResources({ name, resources }: SourceSettings, resource: string | undefined): readonly string[] {
  if (resource === undefined) return resources;
  if (resources.includes(resource)) return [resource];
  throw new SyncError('unknown_resource', `source ${name} has no resource "${resource}"`, {
    recovery: 'skip',
    hint: `it has ${resources.join(', ')}`,
  });
}

/** Throws what the warehouse throws. */
async function carryOut(
  parts: ControlParts,
  request: Exclude<ControlRequest, { action: 'sync' | 'reload' }>,
  origin: ControlOrigin,
): Promise<ControlAnswer> {
  const { supervisor, warehouse, clock, resources, what } = parts;
  const { own } = warehouse;
  switch (request.action) {
    case 'pause':
      await warehouse.apply(pauseResources(own, resources, { at: clock.now(), by: originText(origin) }));
      await supervisor.pausesChanged();
      return done(`${what}: paused; webhooks are stored, and processed when it is resumed`);
    case 'resume': {
      const pauses = await readPauses(own);
      const paused = resources.filter((resource) => pauses.has(resource));
      if (paused.length === 0) return done(`${what}: nothing of it was paused`);
      await warehouse.apply(resumeResources(own, paused));
      await supervisor.pausesChanged();
      supervisor.work.wake();
      return done(`${what}: resumed (${paused.join(', ')})`);
    }
    case 'retry':
      return retry(parts, request);
    case 'replay':
      return replay(parts, request);
    default: {
      const { name: source } = supervisor.source;
      const { action: decision, ids = [] } = request;
      const stored = await decideDeletes(warehouse, { source, resources, decision, ids });
      supervisor.work.wake();
      const left = 'the running serve does it within 10s';
      const decided =
        decision === 'confirm' ? stored.map((each) => Object.assign(each, { left: each.left ?? left })) : stored;
      return done(decidedText(decided), { source, resources: decided });
    }
  }
}

/** The answer if one of the resources is paused, else null. */
function whilePaused({ supervisor, clock, resources }: ControlParts, pauses: ReadonlyMap<string, Pause>) {
  const { name } = supervisor.source;
  const paused = resources.find((resource) => pauses.has(resource));
  const pause = pauses.get(paused ?? '');
  if (pause === undefined) return null;
  const message = `${name} ${paused} was paused ${formatAge(pause.at, clock.now())} by ${pause.by}`;
  return refused('paused', message, `content-sync resume --source ${name} ${paused}`);
}

async function retry(parts: ControlParts, request: RequestOf<'retry'>): Promise<ControlAnswer> {
  const { supervisor, warehouse, clock, resources, what } = parts;
  const now = request.now === true;
  const refusal = whilePaused(parts, await readPauses(warehouse.own));
  if (refusal !== null) return refusal;
  const failed: string[] = [];
  for (const resource of resources) {
    const schedule = supervisor.schedule(resource);
    // Another process may have failed too, or this one with earlier settings.
    const status = (await lastRun(warehouse.own, resource))?.status;
    const hasFailed = (schedule?.failures ?? 0) > 0 || status === 'failed' || (now && status === 'deferred');
    if (hasFailed && schedule?.running === null) failed.push(resource);
  }
  const { warehouse: address, webhook } = supervisor.source;
  const hurried = webhook === null ? 0 : await hurryDeliveries(address, clock, resources);
  await supervisor.retry(resources, now);
  supervisor.work.wake();
  // The results are in the runs, as for every scheduled sync.
  for (const resource of failed) void supervisor.scheduler?.scanNow(resource, 'sync').catch(() => undefined);
  const retried = [...failed, ...(hurried === 0 ? [] : [countOf(hurried, 'webhook delivery', 'webhook deliveries')])];
  if (retried.length === 0) return done(`${what}: nothing had failed; whatever is due begins now`);
  return done(`${what}: tried again now: ${retried.join(', ')}`);
}

async function replay({ supervisor, clock }: ControlParts, { ids }: RequestOf<'replay'>): Promise<ControlAnswer> {
  const { name, warehouse, webhook } = supervisor.source;
  if (webhook === null) {
    return refused('usage', `source ${name} receives no webhooks`, 'set webhook.secrets in its settings');
  }
  const { replayed, unknown } = await replayDeliveries(warehouse, clock, ids ?? null);
  supervisor.work.wake();
  const result = { source: name, replayed, unknown };
  if (unknown.length === 0) return done(`${name}: ${replayedText(replayed)}`, result);
  const hint = 'content-sync deliveries list shows those that are stored';
  return { ...refused('usage', `${name}: there is no delivery ${unknown.join(', ')}`, hint), result };
}

/** A process that has just started opens its sources within moments. */
const OPENING_TIMEOUT_MS = 15_000;
const CHECK_INTERVAL_MS = 100;

/** Begins syncs of resources, whatever is due. Throws what the warehouse throws. */
async function beginSync(parts: ControlParts, { mode }: RequestOf<'sync'>): Promise<ControlResult> {
  const { supervisor, warehouse, clock, what } = parts;
  const pauses = await readPauses(warehouse.own);
  const resources = parts.resources.filter((resource) => !pauses.has(resource));
  const refusal = whilePaused(parts, pauses);
  if (refusal !== null && resources.length === 0) return { answer: refusal, report: null };
  const scheduler = await whenOpen(supervisor, clock);
  if (scheduler === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    return { answer: refused('warehouse_opening', `${what}: the source is not open yet`, hint), report: null };
  }
  const command = mode === 'full' ? 'backfill' : 'sync';
  const running = resources.flatMap((resource) => supervisor.schedule(resource)?.running ?? []);
  const mustWait = running.some((each) => command === 'sync' || each.command !== 'backfill');
  const syncs = resources.length === 1 ? `a scan (${mode})` : `scans (${mode}) of ${resources.join(', ')}`;
  const joined = running.length > 0 ? '; the full scan in progress is that one' : ' now';
  const answer = done(`${what}: ${syncs}${mustWait ? ' as soon as the scan in progress has ended' : joined}`);
  const walk = (resource: string): Promise<RunReport> => scheduler.scanNow(resource, command);
  return { answer, report: together(supervisor.source, resources, walk) };
}

async function whenOpen(supervisor: SourceSupervisor, clock: Clock): Promise<Scheduler | null> {
  const until = clock.monotonic() + OPENING_TIMEOUT_MS;
  while (supervisor.scheduler === null && clock.monotonic() < until) await sleepOrAbort(clock, CHECK_INTERVAL_MS);
  return supervisor.scheduler;
}

/** Syncs resources in parallel, as one report; one that depends on another resource comes after that one. */
export async function together(
  source: SourceSettings,
  resources: readonly string[],
  walk: (resource: string) => Promise<RunReport>,
): Promise<RunReport> {
  const begun = new Map<string, Promise<RunReport>>();
  const begin = (resource: string): Promise<RunReport> => {
    const parent = parentOf(source.profile.resources[resource]);
    const before = parent !== null && resources.includes(parent) ? (begun.get(parent) ?? begin(parent)) : null;
    const known = begun.get(resource);
    if (known !== undefined) return known;
    const report = before === null ? walk(resource) : before.catch(() => undefined).then(() => walk(resource));
    begun.set(resource, report);
    return report;
  };
  const reports = await Promise.all(resources.map(begin));
  const status = overallStatus(reports.map((report) => report.status));
  const runId = reports.find(({ run_id }) => run_id !== '')?.run_id ?? '';
  return { source: source.name, run_id: runId, status, resources: reports.flatMap((report) => report.resources) };
}
