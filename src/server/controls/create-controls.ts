import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { agoText, countOf, durationText } from '../../observe/figures.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { parentOf } from '../../config/profile/request-fields.ts';
import { type Pause, pauseResources, readPauses, resumeResources } from '../../database/state/server-state.ts';
import { lastRun } from '../../database/state/runs.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import { overallStatus, type RunReport } from '../../sync/report.ts';
import type { Scheduler } from '../schedule/scheduler.ts';
import { openWarehouse } from '../../database/databases.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import {
  type Begun,
  type Control,
  type ControlAction,
  type ControlAnswer,
  type ControlledSource,
  type ControlOrigin,
  type ControlRequest,
  done,
  failed,
  originText,
  refused,
} from './control-request.ts';
import { decideDeletes, decidedText, type DeleteDecision } from './decide-deletes.ts';
import { hurryDeliveries, replayDeliveries, replayedText } from './replay-deliveries.ts';

export interface ControlsOptions {
  /** The source of that name; undefined if this process does not keep it. */
  source: (name: string) => ControlledSource | undefined;
  /** Reads the config anew. */
  reload: (origin: ControlOrigin) => Promise<ControlAnswer>;
  clock: Clock;
  log: Logger;
}

/** What a running process can be told to do; each request is one line of the log. */
export function createControls(options: ControlsOptions): Control {
  return async (request, origin) => {
    const begun = await begin(options, request, origin).catch((error: unknown): Begun => {
      return { answer: failed(error), report: null };
    });
    // A report that nobody waits for.
    begun.report?.catch(() => undefined);
    const { done: isDone, message, code } = begun.answer;
    const line = { control: request, ...origin, done: isDone, code, answer: message };
    options.log[isDone ? 'info' : 'warn'](line, 'control');
    return begun;
  };
}

async function begin(options: ControlsOptions, request: ControlRequest, origin: ControlOrigin): Promise<Begun> {
  if (request.action === 'reload') return { answer: await options.reload(origin), report: null };
  const on = options.source(request.source);
  if (on === undefined) return { answer: unknownSource(request.source), report: null };
  // Another process leads the source; what came from the database was meant for the one that does.
  const elsewhere = origin.via === 'database' ? null : on.elsewhere();
  if (elsewhere !== null && LEADERS.has(request.action)) return elsewhere(request, origin);
  if (request.action === 'sync') return beginSync(on, request);
  return { answer: await ACTIONS[request.action](on, request, origin), report: null };
}

/** What only the process that leads the source can do. */
const LEADERS: ReadonlySet<ControlAction> = new Set(['sync', 'retry']);

function unknownSource(name: string): ControlAnswer {
  const hint = 'see the names in the config; after a change of it, content-sync reload';
  return refused('unknown_source', `the running process keeps no source "${name}"`, hint);
}

/** What of a source is meant. */
interface Choice {
  resource?: string | undefined;
  ids?: readonly string[] | undefined;
  now?: true | undefined;
}

type Carry = (on: ControlledSource, asked: Choice, origin: ControlOrigin) => Promise<ControlAnswer>;

/** The actions that are carried out by what is stored and by the schedule alone. */
const ACTIONS: Readonly<Record<Exclude<ControlAction, 'reload' | 'sync'>, Carry>> = {
  pause: async (on, asked, origin) => {
    const resources = chosen(on, asked);
    const pause = { at: on.clock.now(), by: originText(origin) };
    await change(on, ({ own }) => pauseResources(own, resources, pause));
    await on.pausesChanged();
    return done(`${named(on, asked)}: paused; webhooks are stored and worked on when it is resumed`);
  },
  resume: async (on, asked) => {
    const resources = chosen(on, asked);
    const paused = await pausesOf(on);
    const left = resources.filter((resource) => paused.has(resource));
    if (left.length === 0) return done(`${named(on, asked)}: nothing of it was paused`);
    await change(on, ({ own }) => resumeResources(own, left));
    await on.pausesChanged();
    on.wake();
    return done(`${named(on, asked)}: goes on (${left.join(', ')})`);
  },
  retry: async (on, asked) => {
    const resources = chosen(on, asked);
    const paused = pausedAmong(resources, await pausesOf(on));
    if (paused !== null) return whilePaused(on, paused);
    return retry(on, resources, named(on, asked), asked.now === true);
  },
  replay: async (on, { ids }) => {
    const { name, warehouse, webhook } = on.source;
    if (webhook === null) {
      return refused('usage', `source ${name} receives no webhooks`, 'webhook.secrets in its settings makes it do so');
    }
    const { replayed, unknown } = await replayDeliveries(warehouse, on.clock, ids ?? null);
    on.wake();
    const result = { source: name, replayed, unknown };
    if (unknown.length === 0) return done(`${name}: ${replayedText(replayed)}`, result);
    const hint = 'content-sync deliveries list shows those that are kept';
    return { ...refused('usage', `${name}: there is no delivery ${unknown.join(', ')}`, hint), result };
  },
  confirm: (on, asked) => decide(on, asked, 'confirm'),
  discard: (on, asked) => decide(on, asked, 'discard'),
};

/** The resources that a request names, or all of the source. Throws `SyncError('unknown_resource')`. */
function chosen({ source }: ControlledSource, { resource }: Choice): readonly string[] {
  if (resource === undefined) return source.resources;
  if (source.resources.includes(resource)) return [resource];
  throw new SyncError('unknown_resource', `source ${source.name} has no resource "${resource}"`, {
    recovery: 'skip',
    hint: `it has ${source.resources.join(', ')}`,
  });
}

/** `blog`, or `blog content`. */
function named({ source }: ControlledSource, { resource }: Choice): string {
  return resource === undefined ? source.name : `${source.name} ${resource}`;
}

/** The first of the resources that is paused. */
function pausedAmong(resources: readonly string[], pauses: ReadonlyMap<string, Pause>) {
  for (const resource of resources) {
    const pause = pauses.get(resource);
    if (pause !== undefined) return { resource, pause };
  }
  return null;
}

/** The answer to one who wants a paused resource to be worked on. */
function whilePaused(
  { source, clock }: ControlledSource,
  { resource, pause }: { resource: string; pause: Pause },
): ControlAnswer {
  const message = `${source.name} ${resource} was paused ${agoText(pause.at, clock.now())} by ${pause.by}`;
  return refused('paused', message, `content-sync resume --source ${source.name} ${resource}`);
}

function pausesOf(on: ControlledSource): Promise<ReadonlyMap<string, Pause>> {
  return withWarehouse(on, ({ own }) => readPauses(own));
}

async function retry(
  on: ControlledSource,
  resources: readonly string[],
  what: string,
  now: boolean,
): Promise<ControlAnswer> {
  const scheduler = on.scheduler();
  const figures = scheduler?.figures() ?? [];
  const isFailed = async (resource: string, own: Warehouse['own']): Promise<boolean> => {
    const schedule = figures.find((each) => each.resource === resource);
    if (schedule?.running !== null) return false;
    // Also one of another process, or under settings from before.
    const status = (await lastRun(own, resource))?.status;
    return schedule.failures > 0 || status === 'failed' || (now && status === 'deferred');
  };
  const failures = await withWarehouse(on, ({ own }) => Promise.all(resources.map((each) => isFailed(each, own))));
  const failed = resources.filter((_, index) => failures[index]);
  const { warehouse, webhook } = on.source;
  const hurried = webhook === null ? 0 : await hurryDeliveries(warehouse, on.clock, resources);
  await on.retry(resources, now);
  on.wake();
  for (const resource of failed) {
    // Whatever it comes to shows in the runs, as it does for a walk that was due.
    void scheduler?.walkNow(resource, 'sync').catch(() => undefined);
  }
  const told = [...failed, ...(hurried === 0 ? [] : [countOf(hurried, 'webhook delivery', 'webhook deliveries')])];
  if (told.length === 0) return done(`${what}: nothing had failed; whatever is due begins now`);
  return done(`${what}: tried again now: ${told.join(', ')}`);
}

async function decide(
  on: ControlledSource,
  asked: Choice,
  decision: DeleteDecision['decision'],
): Promise<ControlAnswer> {
  const { name: source } = on.source;
  const resources = chosen(on, asked);
  const stored = await withWarehouse(on, (warehouse) =>
    decideDeletes(warehouse, { source, resources, decision, ids: asked.ids ?? [] }),
  );
  on.wake();
  const left = `the running serve does it within ${durationText(SOON_SECONDS)}`;
  const decided =
    decision === 'confirm' ? stored.map((each) => Object.assign(each, { left: each.left ?? left })) : stored;
  return done(decidedText(decided), { source, resources: decided });
}

/** How often the keeper of a source looks for deletes that a person has released. */
const SOON_SECONDS = 10;

async function change(on: ControlledSource, statements: (warehouse: Warehouse) => Parameters<Warehouse['apply']>[0]) {
  await withWarehouse(on, (warehouse) => warehouse.apply(statements(warehouse)));
}

/** On a connection of its own: the source itself may be closed just now, or busy. */
async function withWarehouse<T>({ source, clock }: ControlledSource, work: (warehouse: Warehouse) => Promise<T>) {
  const warehouse = await openWarehouse(source.warehouse, clock);
  try {
    return await work(warehouse);
  } finally {
    await warehouse.close();
  }
}

const COMMANDS: Readonly<Record<'incremental' | 'full', SyncCommand>> = { incremental: 'sync', full: 'backfill' };
/** A process that has just started opens its sources within moments. */
const PATIENCE_MS = 15_000;
const LOOK_MS = 100;

/** Begins walks of a source, or of one resource of it, whatever is due. Throws what the warehouse throws. */
async function beginSync(on: ControlledSource, asked: Extract<ControlRequest, { action: 'sync' }>): Promise<Begun> {
  const pauses = await pausesOf(on);
  const resources = chosen(on, asked).filter((resource) => !pauses.has(resource));
  const paused = pausedAmong(chosen(on, asked), pauses);
  if (paused !== null && resources.length === 0) return { answer: whilePaused(on, paused), report: null };
  const scheduler = await opened(on);
  if (scheduler === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    const answer = refused('warehouse_opening', `${named(on, asked)}: the source is not open yet`, hint);
    return { answer, report: null };
  }
  const command = COMMANDS[asked.mode];
  const running = scheduler.figures().filter((each) => each.running !== null && resources.includes(each.resource));
  const behind = running.filter((each) => command === 'sync' || each.running?.command !== 'backfill');
  const answer = done(`${named(on, asked)}: ${syncText(asked.mode, resources, running.length, behind.length)}`);
  return { answer, report: together(on.source, resources, (resource) => scheduler.walkNow(resource, command)) };
}

async function opened(on: ControlledSource): Promise<Pick<Scheduler, 'walkNow' | 'figures'> | null> {
  const until = on.clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const scheduler = on.scheduler();
    if (scheduler !== null || on.clock.monotonic() >= until) return scheduler;
    await sleepOrAbort(on.clock, LOOK_MS);
  }
}

function syncText(mode: 'incremental' | 'full', resources: readonly string[], running: number, behind: number): string {
  const what = resources.length === 1 ? `a walk (${mode})` : `walks (${mode}) of ${resources.join(', ')}`;
  if (behind > 0) return `${what} as soon as the walk under way has ended`;
  return running > 0 ? `${what}; the full walk under way is that one` : `${what} now`;
}

/** Walks side by side, as one report; a resource whose listings are another one's rows comes behind that one. */
export async function together(
  source: Pick<SourceSettings, 'name' | 'profile'>,
  resources: readonly string[],
  walk: (resource: string) => Promise<RunReport>,
): Promise<RunReport> {
  const begun = new Map<string, Promise<RunReport>>();
  const begin = (resource: string): Promise<RunReport> => {
    const parent = parentOf(source.profile.resources[resource]);
    const before = parent !== null && resources.includes(parent) ? (begun.get(parent) ?? begin(parent)) : null;
    const report = begun.get(resource) ?? (before === null ? walk(resource) : behind(before, () => walk(resource)));
    begun.set(resource, report);
    return report;
  };
  const reports = await Promise.all(resources.map(begin));
  return merged(source.name, reports);
}

async function behind<T>(before: Promise<unknown>, work: () => Promise<T>): Promise<T> {
  await before.catch(() => undefined);
  return work();
}

/** Reports of walks that were asked for together, as one of a run that has them all. */
function merged(source: string, reports: readonly RunReport[]): RunReport {
  const status = overallStatus(reports.map((report) => report.status));
  const runId = reports.find(({ run_id }) => run_id !== '')?.run_id ?? '';
  return { source, run_id: runId, status, resources: reports.flatMap(({ resources }) => resources) };
}
