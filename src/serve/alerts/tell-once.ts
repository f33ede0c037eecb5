import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SourceActivity } from '../../observe/activity.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub/scrub.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { dueOf, timesOf, type StoredSuccess } from '../../trigger/schedule/due.ts';
import { inboxAddress, openInbox, openWarehouse } from '../../warehouse/databases.ts';
import type { Inbox } from '../../warehouse/inbox.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { createCollector } from '../status/collect.ts';
import type { ScheduleStatus } from '../status/snapshot.ts';
import type { StatusParts } from '../status/source-status.ts';
import { createAlerts, type AlertSettings } from './alerts.ts';

export interface TellOnceOptions extends AlertSettings {
  sources: readonly SourceSettings[];
  version: string;
  clock: Clock;
  log: Logger;
  secrets: readonly string[];
}

type ReadStored = <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;

/** A source as a process sees it that has just worked on it, and ends. */
interface Looked {
  parts: StatusParts;
  isLed: () => boolean;
  name: string;
  read: ReadStored;
}

/**
 * Tells what a run from cron leaves behind, with the memory that `serve` has: once, and when it is over. Waits some
 * seconds at most for receivers that do not answer, and never throws for them.
 */
export async function tellOnce({ channels, publicUrl, sources, ...process }: TellOnceOptions): Promise<void> {
  if (Object.keys(channels).length === 0) return;
  await using opened = new AsyncDisposableStack();
  const { version, clock, log, secrets } = process;
  const metrics = createMetrics(version);
  opened.defer(() => metrics.close());
  const looked: Looked[] = [];
  for (const source of sources) looked.push(await lookAt(source, { clock, secrets, metrics }, opened));
  const parts = looked.map((each) => each.parts);
  const times = { startedAt: clock.now(), stopping: () => false };
  const collector = createCollector({ version, clock, ...times, sources: () => parts });
  const sending = { channels, publicUrl, clock, log, secrets, metrics };
  const alerts = createAlerts({ ...sending, snapshot: () => collector.snapshot(), sources: () => looked });
  opened.defer(() => alerts.stop());
  await alerts.lookOnce();
}

interface LookParts {
  clock: Clock;
  secrets: readonly string[];
  metrics: Metrics;
}

/** A source that cannot be opened is one that is told of. */
async function lookAt(
  source: SourceSettings,
  { clock, secrets, metrics }: LookParts,
  opened: AsyncDisposableStack,
): Promise<Looked> {
  const warehouse = await openWarehouse(source.warehouse, clock).catch((error: unknown) => ({ error }));
  const { name } = source;
  const read: ReadStored = async (work) => {
    if ('error' in warehouse) throw warehouse.error;
    return work(warehouse);
  };
  if (!('error' in warehouse)) opened.defer(() => warehouse.close());
  const inbox = 'error' in warehouse || source.webhook === null ? null : await inboxOf(source, clock);
  if (inbox !== null) opened.defer(() => inbox.close());
  const stored = 'error' in warehouse ? new Map<string, StoredSuccess>() : await storedOf(source, warehouse);
  const parts: StatusParts = {
    source,
    activity: new SourceActivity(name, clock, metrics),
    read,
    version: () => null,
    governor: () => null,
    schedule: (resource) => scheduleOf(source, resource, stored.get(resource) ?? null, clock.now()),
    inbox: inbox === null ? null : () => inbox.figures(),
    deliveries: null,
    names: () => [],
    scrub: (text) => scrubOwn(text, secrets),
  };
  return { parts, name, isLed: () => true, read };
}

/** Null where nothing was ever received, or it cannot be read: `serve` tells of that. */
async function inboxOf({ warehouse }: SourceSettings, clock: Clock): Promise<Inbox | null> {
  return openInbox(inboxAddress(warehouse), clock).catch(() => null);
}

async function storedOf(source: SourceSettings, { own }: Warehouse): Promise<Map<string, StoredSuccess>> {
  const stored = new Map<string, StoredSuccess>();
  for (const resource of source.resources) {
    const checkpoint = await readCheckpoint(own, resource);
    if (checkpoint !== null) stored.set(resource, checkpoint);
  }
  return stored;
}

function scheduleOf(
  { name, profile, schedule }: SourceSettings,
  resource: string,
  stored: StoredSuccess | null,
  now: number,
): ScheduleStatus {
  const { timezone, resources, ...usual } = schedule;
  const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const times = timesOf({ source: name, resource, hasFilter }, schedule);
  const elapsed = { success: null, full: null };
  const { nextAt, overdueAt } = dueOf({ times, stored, elapsed, now, watchedSince: now });
  return { incremental, full, timezone, next_at: nextAt, overdue_at: overdueAt };
}
