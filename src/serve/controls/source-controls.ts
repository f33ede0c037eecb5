import { SyncError } from '../../model/errors.ts';
import { agoText, countOf, durationText } from '../../observe/figures.ts';
import { pauseResources, readPauses, resumeResources, type Pause } from '../../state/pauses.ts';
import { lastRun } from '../../state/runs.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { done, originText, refused } from './answers.ts';
import type { ControlledSource } from './controlled-source.ts';
import type { ControlAction, ControlAnswer, ControlOrigin, ControlRequest } from './control-request.ts';
import { decidedText, decideDeletes, type DeleteDecision } from './decide-deletes.ts';
import { hurryDeliveries, replayDeliveries, replayedText } from './replay-deliveries.ts';

/** The actions that are carried out by what is stored and by the schedule alone. */
type StoredAction = Exclude<ControlAction, 'reload' | 'sync'>;

/** What of a source is meant. */
interface Choice {
  resource?: string | undefined;
  ids?: readonly string[] | undefined;
  now?: true | undefined;
}

type Carry = (on: ControlledSource, asked: Choice, origin: ControlOrigin) => Promise<ControlAnswer>;

const ACTIONS: Readonly<Record<StoredAction, Carry>> = {
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

/** Carries out what is asked of one source. Throws what the warehouse and the inbox throw, and `SyncError('unknown_resource')`. */
export function carryOut(
  on: ControlledSource,
  request: Extract<ControlRequest, { action: StoredAction }>,
  origin: ControlOrigin,
): Promise<ControlAnswer> {
  return ACTIONS[request.action](on, request, origin);
}

/** The resources that a request names, or all of the source. Throws `SyncError('unknown_resource')`. */
export function chosen({ source }: ControlledSource, { resource }: Choice): readonly string[] {
  if (resource === undefined) return source.resources;
  if (source.resources.includes(resource)) return [resource];
  throw new SyncError('unknown_resource', `source ${source.name} has no resource "${resource}"`, {
    recovery: 'skip',
    hint: `it has ${source.resources.join(', ')}`,
  });
}

/** `blog`, or `blog content`. */
export function named({ source }: ControlledSource, { resource }: Choice): string {
  return resource === undefined ? source.name : `${source.name} ${resource}`;
}

/** The first of the resources that is paused. */
export function pausedAmong(resources: readonly string[], pauses: ReadonlyMap<string, Pause>) {
  for (const resource of resources) {
    const pause = pauses.get(resource);
    if (pause !== undefined) return { resource, pause };
  }
  return null;
}

/** The answer to one who wants a paused resource to be worked on. */
export function whilePaused(
  { source, clock }: ControlledSource,
  { resource, pause }: { resource: string; pause: Pause },
): ControlAnswer {
  const message = `${source.name} ${resource} was paused ${agoText(pause.at, clock.now())} by ${pause.by}`;
  return refused('paused', message, `content-sync resume --source ${source.name} ${resource}`);
}

export function pausesOf(on: ControlledSource): Promise<ReadonlyMap<string, Pause>> {
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
