import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import { createCollector } from '../status/collect.ts';
import type { StatusSnapshot } from '../status/snapshot.ts';
import type { StatusParts } from '../status/source-status.ts';
import { readSuccesses, storedParts } from '../status/stored-parts.ts';
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
  const successes = await use(({ own }) => readSuccesses(source, own)).catch(() => new Map<string, never>());
  const parts = storedParts(source, { clock, metrics, secrets, successes, read: use, inbox: null });
  return { parts, name, isLed: () => true, use };
}
