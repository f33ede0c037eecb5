// Carries out control requests (sync, retry) in a running `serve`.
import type { Logger } from 'pino';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { lastRun } from '../../database/state/runs.ts';
import { readPauses } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { formatCount, formatAge } from '../../observe/format-values.ts';
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
  /** The supervisor of a source; undefined if this process does not keep it. */
  supervisor: (source: string) => SourceSupervisor | undefined;
  clock: Clock;
  log: Logger;
}

/** Carries out the requests of users. Each is one line of the log. */
export function createControls(options: ControlsOptions): Control {
  return async (request, by) => {
    const result = await carryOut(options, request).catch((error: unknown): ControlResult => {
      return { answer: errorAnswer(error), report: null };
    });
    // No caller may wait for the report.
    result.report?.catch(() => undefined);
    const { done: isDone, message, code } = result.answer;
    const line = { control: request, by, done: isDone, code, answer: message };
    options.log[isDone ? 'info' : 'warn'](line, 'control');
    return result;
  };
}

async function carryOut(options: ControlsOptions, request: ControlRequest): Promise<ControlResult> {
  const supervisor = options.supervisor(request.source);
  if (supervisor === undefined) {
    const hint = 'see the names in the config; after a change of it, restart serve';
    const message = `the running process keeps no source "${request.source}"`;
    return { answer: refusedAnswer('unknown_source', message, hint), report: null };
  }
  const { source } = supervisor;
  const { resource } = request;
  const resources = chooseResources(source, resource);
  const warehouse = await openWarehouse(source.warehouse, options.clock);
  try {
    const what = resource === undefined ? source.name : `${source.name} ${resource}`;
    const parts: ControlParts = { supervisor, warehouse, clock: options.clock, resources, what };
    if (request.action === 'sync') return await beginSync(parts, request.resource, request.mode);
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
  /** The source, or source and resource, for answers: `blog`, or `blog content`. */
  what: string;
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

/** The answer if one of the resources is paused, else null. */
async function refuseIfPaused({ supervisor, warehouse, clock, resources }: ControlParts) {
  const { name } = supervisor.source;
  const pauses = await readPauses(warehouse.own);
  for (const resource of resources) {
    const pause = pauses.get(resource);
    if (pause === undefined) continue;
    const message = `${name} ${resource} was paused ${formatAge(pause.at, clock.now())} by ${pause.by}`;
    return refusedAnswer('paused', message, `content-sync resume --source ${name} ${resource}`);
  }
  return null;
}

async function retry(parts: ControlParts, now: boolean): Promise<ControlAnswer> {
  const { supervisor, warehouse, clock, resources, what } = parts;
  const refusal = await refuseIfPaused(parts);
  if (refusal !== null) return refusal;
  const failed: string[] = [];
  for (const resource of resources) {
    const schedule = supervisor.schedule(resource);
    // Another process may have failed too, or an earlier one.
    const status = (await lastRun(warehouse.own, resource))?.status;
    const hasFailed = status === 'failed' || (now && status === 'deferred');
    // A scan in progress is the attempt after the failures that were counted.
    const isRunning = (schedule?.running ?? null) !== null;
    if (hasFailed || (!isRunning && (schedule?.failures ?? 0) > 0)) failed.push(resource);
  }
  const { warehouse: address, webhook } = supervisor.source;
  const hurried = webhook === null ? 0 : await hurryDeliveries(address, clock, resources);
  await supervisor.retry(resources, now);
  supervisor.work.wake();
  // The results are in the runs, as for every scheduled sync.
  for (const resource of failed) void supervisor.scanNow?.(resource, 'sync').catch(() => undefined);
  const retried = [
    ...failed,
    ...(hurried === 0 ? [] : [formatCount(hurried, 'webhook delivery', 'webhook deliveries')]),
  ];
  if (retried.length === 0) return doneAnswer(`${what}: nothing had failed; whatever is due begins now`);
  return doneAnswer(`${what}: tried again now: ${retried.join(', ')}`);
}

/** A process that has just started opens its sources within moments. */
const OPENING_TIMEOUT_MS = 15_000;
const CHECK_INTERVAL_MS = 100;

/** Begins a sync of a resource, whatever is due. Throws what the warehouse throws. */
async function beginSync(parts: ControlParts, resource: string, mode: 'incremental' | 'full'): Promise<ControlResult> {
  const { supervisor, clock, what } = parts;
  const refusal = await refuseIfPaused(parts);
  if (refusal !== null) return { answer: refusal, report: null };
  const scanNow = await whenOpen(supervisor, clock);
  if (scanNow === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    return { answer: refusedAnswer('warehouse_opening', `${what}: the source is not open yet`, hint), report: null };
  }
  const command = mode === 'full' ? 'backfill' : 'sync';
  const inProgress = supervisor.schedule(resource)?.running ?? null;
  if (command === 'backfill' && inProgress?.command === 'backfill') {
    return { answer: doneAnswer(`${what}: the full scan in progress is that one`), report: inProgress.report };
  }
  const start = inProgress === null ? 'now' : 'as soon as the scan in progress has ended';
  return { answer: doneAnswer(`${what}: a scan (${mode}) ${start}`), report: scanNow(resource, command) };
}

async function whenOpen(supervisor: SourceSupervisor, clock: Clock): Promise<SourceSupervisor['scanNow']> {
  const until = clock.monotonic() + OPENING_TIMEOUT_MS;
  while (supervisor.scanNow === null && clock.monotonic() < until) await sleepOrAbort(clock, CHECK_INTERVAL_MS);
  return supervisor.scanNow;
}
