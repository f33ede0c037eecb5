// Carries out control requests (sync, retry) in a running `serve`.
import type { Logger } from 'pino';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { lastRun } from '../../database/state/runs.ts';
import { type Pause, readPauses } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { countOf, formatAge } from '../../observe/figures.ts';
import type { RunReport } from '../../sync/report.ts';
import type { SourceSupervisor } from '../source-supervisor.ts';
import {
  type Control,
  type ControlAnswer,
  type ControlRequest,
  type ControlResult,
  done,
  failed,
  refused,
} from './control-request.ts';
import { hurryDeliveries } from './replay-deliveries.ts';
import { syncTogether } from './sync-together.ts';

interface ControlsOptions {
  /** The supervisor of a source; undefined if this process does not keep it. */
  supervisor: (source: string) => SourceSupervisor | undefined;
  clock: Clock;
  log: Logger;
}

/** Carries out the requests of users. Each is one line of the log. */
export function createControls(options: ControlsOptions): Control {
  return async (request, by) => {
    const begun = await begin(options, request).catch((error: unknown): ControlResult => {
      return { answer: failed(error), report: null };
    });
    // No caller may wait for the report.
    begun.report?.catch(() => undefined);
    const { done: isDone, message, code } = begun.answer;
    const line = { control: request, by, done: isDone, code, answer: message };
    options.log[isDone ? 'info' : 'warn'](line, 'control');
    return begun;
  };
}

async function begin(options: ControlsOptions, request: ControlRequest): Promise<ControlResult> {
  const supervisor = options.supervisor(request.source);
  if (supervisor === undefined) {
    const hint = 'see the names in the config; after a change of it, restart serve';
    const message = `the running process keeps no source "${request.source}"`;
    return { answer: refused('unknown_source', message, hint), report: null };
  }
  const { source } = supervisor;
  const { resource } = request;
  const resources = chooseResources(source, resource);
  const warehouse = await openWarehouse(source.warehouse, options.clock);
  try {
    const what = resource === undefined ? source.name : `${source.name} ${resource}`;
    const parts: ControlParts = { supervisor, warehouse, clock: options.clock, resources, what };
    if (request.action === 'sync') return await beginSync(parts, request.mode);
    return { answer: await retry(parts, request.now === true), report: null };
  } finally {
    await warehouse.close();
  }
}

interface ControlParts {
  supervisor: SourceSupervisor;
  /** Opened for this request: the source itself may be closed or busy. */
  warehouse: Warehouse;
  clock: Clock;
  resources: readonly string[];
  /** `blog`, or `blog content`. */
  what: string;
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

/** The answer if one of the resources is paused, else null. */
function refuseIfPaused({ supervisor, clock, resources }: ControlParts, pauses: ReadonlyMap<string, Pause>) {
  const { name } = supervisor.source;
  const paused = resources.find((resource) => pauses.has(resource));
  const pause = pauses.get(paused ?? '');
  if (pause === undefined) return null;
  const message = `${name} ${paused} was paused ${formatAge(pause.at, clock.now())} by ${pause.by}`;
  return refused('paused', message, `content-sync resume --source ${name} ${paused}`);
}

async function retry(parts: ControlParts, now: boolean): Promise<ControlAnswer> {
  const { supervisor, warehouse, clock, resources, what } = parts;
  const refusal = refuseIfPaused(parts, await readPauses(warehouse.own));
  if (refusal !== null) return refusal;
  const failed: string[] = [];
  for (const resource of resources) {
    const schedule = supervisor.schedule(resource);
    // Another process may have failed too, or an earlier one.
    const status = (await lastRun(warehouse.own, resource))?.status;
    const hasFailed = (schedule?.failures ?? 0) > 0 || status === 'failed' || (now && status === 'deferred');
    if (hasFailed && (schedule?.running ?? null) === null) failed.push(resource);
  }
  const { warehouse: address, webhook } = supervisor.source;
  const hurried = webhook === null ? 0 : await hurryDeliveries(address, clock, resources);
  await supervisor.retry(resources, now);
  supervisor.work.wake();
  // The results are in the runs, as for every scheduled sync.
  for (const resource of failed) void supervisor.scanNow?.(resource, 'sync').catch(() => undefined);
  const retried = [...failed, ...(hurried === 0 ? [] : [countOf(hurried, 'webhook delivery', 'webhook deliveries')])];
  if (retried.length === 0) return done(`${what}: nothing had failed; whatever is due begins now`);
  return done(`${what}: tried again now: ${retried.join(', ')}`);
}

/** A process that has just started opens its sources within moments. */
const OPENING_TIMEOUT_MS = 15_000;
const CHECK_INTERVAL_MS = 100;

/** Begins syncs of resources, whatever is due. Throws what the warehouse throws. */
async function beginSync(parts: ControlParts, mode: 'incremental' | 'full'): Promise<ControlResult> {
  const { supervisor, warehouse, clock, what } = parts;
  const pauses = await readPauses(warehouse.own);
  const resources = parts.resources.filter((resource) => !pauses.has(resource));
  const refusal = refuseIfPaused(parts, pauses);
  if (refusal !== null && resources.length === 0) return { answer: refusal, report: null };
  const scanNow = await whenOpen(supervisor, clock);
  if (scanNow === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    return { answer: refused('warehouse_opening', `${what}: the source is not open yet`, hint), report: null };
  }
  const command = mode === 'full' ? 'backfill' : 'sync';
  const running = resources.flatMap((resource) => supervisor.schedule(resource)?.running ?? []);
  const mustWait = running.some((each) => command === 'sync' || each.command !== 'backfill');
  const syncs = resources.length === 1 ? `a scan (${mode})` : `scans (${mode}) of ${resources.join(', ')}`;
  const joined = running.length > 0 ? '; the full scan in progress is that one' : ' now';
  const answer = done(`${what}: ${syncs}${mustWait ? ' as soon as the scan in progress has ended' : joined}`);
  const scan = (resource: string): Promise<RunReport> => {
    const inProgress = supervisor.schedule(resource)?.running;
    const isSame = command === 'backfill' && inProgress?.command === 'backfill';
    return isSame ? inProgress.report : scanNow(resource, command);
  };
  return { answer, report: syncTogether(supervisor.source, resources, scan) };
}

async function whenOpen(supervisor: SourceSupervisor, clock: Clock): Promise<SourceSupervisor['scanNow']> {
  const until = clock.monotonic() + OPENING_TIMEOUT_MS;
  while (supervisor.scanNow === null && clock.monotonic() < until) await sleepOrAbort(clock, CHECK_INTERVAL_MS);
  return supervisor.scanNow;
}
