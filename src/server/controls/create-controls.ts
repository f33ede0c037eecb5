// Executes requests of commands in a running `serve`. Example: `content-sync sync` finds that a `serve` runs, and sends it the
// request to sync through the control socket instead of syncing itself.
import type { Logger } from 'pino';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { lastRun } from '../../database/state/runs.ts';
import { readPauses } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { formatAge, formatCount } from '../../observe/format-values.ts';
import type { SourceSupervisor } from '../source-supervisor.ts';
import {
  type Control,
  type ControlAnswer,
  type ControlRequest,
  type ControlResult,
  doneAnswer,
  errorAnswer,
  refusedAnswer,
} from './control-request.ts';
import { hurryDeliveries } from './replay-deliveries.ts';

interface ControlsOptions {
  /** Returns the supervisor of a source; undefined if the settings of this process do not have it. */
  supervisor: (source: string) => SourceSupervisor | undefined;
  clock: Clock;
  log: Logger;
}

/** Creates the function that executes requests. It logs each request in one line. */
export function createControls(options: ControlsOptions): Control {
  return async (request, by) => {
    const result = await execute(options, request).catch((error: unknown): ControlResult => {
      return { answer: errorAnswer(error), report: null };
    });
    // If no caller waits for the report, its error must not end the process.
    result.report?.catch(() => undefined);
    const { done: isDone, message, code } = result.answer;
    const line = { control: request, by, done: isDone, code, answer: message };
    options.log[isDone ? 'info' : 'warn'](line, 'control');
    return result;
  };
}

async function execute(options: ControlsOptions, request: ControlRequest): Promise<ControlResult> {
  const supervisor = options.supervisor(request.source);
  if (supervisor === undefined) {
    const hint = 'see the names in the config; after a change of it, restart serve';
    const message = `the running process has no source "${request.source}"`;
    return { answer: refusedAnswer('unknown_source', message, hint), report: null };
  }
  const { source } = supervisor;
  const { resource } = request;
  const resources = chooseResources(source, resource);
  const warehouse = await openWarehouse(source.warehouse, options.clock);
  try {
    const label = resource === undefined ? source.name : `${source.name} ${resource}`;
    const context: ControlContext = { supervisor, warehouse, clock: options.clock, resources, label };
    const refusal = await refuseIfPaused(context);
    if (refusal !== null) return { answer: refusal, report: null };
    if (request.action === 'sync') return await beginSync(context, request.resource, request.mode);
    return { answer: await retry(context, request.now === true), report: null };
  } finally {
    await warehouse.close();
  }
}

interface ControlContext {
  supervisor: SourceSupervisor;
  /** Opened for this request: the source itself may be closed or busy. */
  warehouse: Warehouse;
  clock: Clock;
  resources: readonly string[];
  /** The source, or source and resource, for answers: `blog`, or `blog content`. */
  label: string;
}

/** Throws `SyncError('usage')`. */
function chooseResources({ name, resources }: SourceSettings, resource: string | undefined): readonly string[] {
  if (resource === undefined) return resources;
  if (resources.includes(resource)) return [resource];
  throw new SyncError('usage', `source ${name} has no resource "${resource}"`, {
    recovery: 'skip',
    hint: `it has ${resources.join(', ')}`,
  });
}

/** Returns a refusal if one of the resources is paused, else null. */
async function refuseIfPaused(context: ControlContext): Promise<ControlAnswer | null> {
  const { supervisor, warehouse, clock, resources } = context;
  const { name } = supervisor.source;
  const pauses = await readPauses(warehouse.own);
  for (const resource of resources) {
    const pause = pauses.get(resource);
    if (pause === undefined) continue;
    const message = `${name} ${resource} was paused ${formatAge(pause.at, clock.now())} by ${pause.by}`;
    return refusedAnswer('paused', message, `content-sync control resume --source ${name} ${resource}`);
  }
  return null;
}

/** Repeats failed syncs and deliveries at once; `now` also ignores the wait that the service requested. */
async function retry(context: ControlContext, now: boolean): Promise<ControlAnswer> {
  const { supervisor, warehouse, clock, resources, label } = context;
  const failed: string[] = [];
  for (const resource of resources) {
    const schedule = supervisor.schedule(resource);
    // The failed run may be that of another process, or of an earlier one.
    const status = (await lastRun(warehouse.own, resource))?.status;
    const hasFailed = status === 'failed' || (now && status === 'deferred');
    // A scan in progress is already the next attempt after the counted failures.
    const isRunning = (schedule?.running ?? null) !== null;
    if (hasFailed || (!isRunning && (schedule?.failures ?? 0) > 0)) failed.push(resource);
  }
  const { warehouse: address, webhook } = supervisor.source;
  const hurried = webhook === null ? 0 : await hurryDeliveries(address, clock, resources);
  await supervisor.retry(resources, now);
  supervisor.work.wake();
  // The answer does not wait for these syncs: `_sync_runs` has their results.
  for (const resource of failed) void supervisor.scanNow?.(resource, 'sync').catch(() => undefined);
  const deliveries = hurried === 0 ? [] : [formatCount(hurried, 'webhook delivery', 'webhook deliveries')];
  const retried = [...failed, ...deliveries];
  if (retried.length === 0) return doneAnswer(`${label}: nothing had failed; whatever is due begins now`);
  return doneAnswer(`${label}: tried again now: ${retried.join(', ')}`);
}

/** In this time, a process that has just started opens its sources. */
const OPENING_TIMEOUT_MS = 15_000;
const CHECK_INTERVAL_MS = 100;

/** Begins a sync of a resource, even if none is due. Throws what the warehouse throws. */
async function beginSync(
  context: ControlContext,
  resource: string,
  mode: 'incremental' | 'full',
): Promise<ControlResult> {
  const { supervisor, clock, label } = context;
  const scanNow = await waitUntilOpen(supervisor, clock);
  if (scanNow === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    return { answer: refusedAnswer('warehouse_opening', `${label}: the source is not open yet`, hint), report: null };
  }
  const command = mode === 'full' ? 'backfill' : 'sync';
  const inProgress = supervisor.schedule(resource)?.running ?? null;
  if (command === 'backfill' && inProgress?.command === 'backfill') {
    return { answer: doneAnswer(`${label}: the full scan in progress is that one`), report: inProgress.report };
  }
  const start = inProgress === null ? 'now' : 'as soon as the scan in progress has ended';
  return { answer: doneAnswer(`${label}: a scan (${mode}) ${start}`), report: scanNow(resource, command) };
}

/** Returns `scanNow` of the supervisor; null if its source is not open after the timeout. */
async function waitUntilOpen(supervisor: SourceSupervisor, clock: Clock): Promise<SourceSupervisor['scanNow']> {
  const until = clock.monotonic() + OPENING_TIMEOUT_MS;
  while (supervisor.scanNow === null && clock.monotonic() < until) await sleepOrAbort(clock, CHECK_INTERVAL_MS);
  return supervisor.scanNow;
}
