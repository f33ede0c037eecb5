import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SourceActivity } from '../../observe/activity.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub/scrub.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { dueOf, timesOf, type StoredSuccess } from '../../trigger/schedule/due.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { createCollector } from '../status/collect.ts';
import type { ScheduleStatus, StatusSnapshot } from '../status/snapshot.ts';
import type { StatusParts } from '../status/source-status.ts';
import type { AlertSource } from './alert-memory.ts';
import { createAlerts, type AlertSettings } from './alerts.ts';

export interface TellOnceOptions extends AlertSettings {
  sources: readonly SourceSettings[];
  version: string;
  clock: Clock;
  log: Logger;
  secrets: readonly string[];
}

/** A source as a process sees it that has worked on it, and ends. */
interface Looked extends AlertSource {
  parts: StatusParts;
}

/**
 * Tells what a run from cron leaves behind, with the memory that `serve` has: once, and when it is over. Waits some
 * seconds at most for receivers that do not answer, and never throws for them. Of webhooks only `serve` knows.
 */
export async function tellOnce({ channels, publicUrl, sources, ...process }: TellOnceOptions): Promise<void> {
  if (Object.keys(channels).length === 0) return;
  await using opened = new AsyncDisposableStack();
  const { version, clock, log, secrets } = process;
  const metrics = createMetrics(version);
  opened.defer(() => metrics.close());
  // One after the other, so that few files are open and none is waited for while others are read.
  const looked: Looked[] = [];
  for (const source of sources) looked.push(await lookAt(source, { clock, secrets, metrics }));
  const sending = { channels, publicUrl, clock, log, secrets, metrics };
  const alerts = createAlerts({
    ...sending,
    snapshot: () => snapshotOf(looked, version, clock),
    sources: () => looked,
  });
  opened.defer(() => alerts.stop());
  await alerts.lookOnce();
}

async function snapshotOf(looked: readonly Looked[], version: string, clock: Clock): Promise<StatusSnapshot> {
  const times = { startedAt: clock.now(), stopping: () => false };
  const whole = await createCollector({ version, clock, ...times, sources: () => [] }).snapshot();
  for (const { parts } of looked) {
    const { sources } = await createCollector({ version, clock, ...times, sources: () => [parts] }).snapshot();
    whole.sources.push(...sources);
  }
  return whole;
}

interface LookParts {
  clock: Clock;
  secrets: readonly string[];
  metrics: Metrics;
}

/** A source that cannot be opened is one that is told of. */
async function lookAt(source: SourceSettings, { clock, secrets, metrics }: LookParts): Promise<Looked> {
  const { name } = source;
  const use: AlertSource['use'] = async (work) => {
    const warehouse = await openWarehouse(source.warehouse, clock);
    return work(warehouse).finally(() => warehouse.close());
  };
  const stored = await use(({ own }) => storedOf(source, own)).catch(() => new Map<string, StoredSuccess>());
  const parts: StatusParts = {
    source,
    activity: new SourceActivity(name, clock, metrics),
    read: use,
    version: () => null,
    governor: () => null,
    schedule: (resource) => scheduleOf(source, resource, stored.get(resource) ?? null, clock.now()),
    inbox: null,
    deliveries: null,
    names: () => [],
    scrub: (text) => scrubOwn(text, secrets),
  };
  return { parts, name, isLed: () => true, use };
}

async function storedOf(source: SourceSettings, own: Warehouse['own']): Promise<Map<string, StoredSuccess>> {
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
