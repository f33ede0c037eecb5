import type { Clock } from '../../model/clock.ts';
import { createMetrics, type Metrics } from '../../observe/metrics.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouse } from '../../database/databases.ts';
import { createCollector } from '../status/collect.ts';
import type { StatusSnapshot } from '../status/snapshot.ts';
import { readSuccesses, type StatusParts, storedParts } from '../status/source-status.ts';
import { type AlertsOptions, type AlertSource, createAlerts } from './alerts.ts';

export interface TellOnceOptions extends Pick<AlertsOptions, 'channels' | 'publicUrl' | 'clock' | 'log' | 'secrets'> {
  sources: readonly SourceSettings[];
  version: string;
}

type SyncedSource = AlertSource & { parts: StatusParts };

/**
 * Reports what a run from cron leaves behind, with the memory that `serve` has: once, and when it has ended. Waits some
 * seconds at most for receivers that do not answer, and never throws for them. Only `serve` knows about webhooks.
 */
export async function tellOnce({ sources, version, ...options }: TellOnceOptions): Promise<void> {
  await using opened = new AsyncDisposableStack();
  const metrics = createMetrics(version);
  opened.defer(() => metrics.close());
  const parts = { ...options, metrics };
  const synced: SyncedSource[] = [];
  for (const source of sources) synced.push(await openSource(source, parts));
  const snapshot = (): Promise<StatusSnapshot> => readSnapshot(synced, version, options.clock);
  const alerts = createAlerts({ ...parts, snapshot, sources: () => synced });
  opened.defer(() => alerts.stop());
  await alerts.lookOnce();
}

/** One source after the other, so that few files are open and a slow source does not delay the others. */
async function readSnapshot(synced: readonly SyncedSource[], version: string, clock: Clock): Promise<StatusSnapshot> {
  const read = (parts: StatusParts[]): Promise<StatusSnapshot> =>
    createCollector({ version, clock, startedAt: clock.now(), stopping: () => false, sources: () => parts }).snapshot();
  const all = await read([]);
  for (const { parts } of synced) all.sources.push(...(await read([parts])).sources);
  return all;
}

/** A source that cannot be opened is one of the problems to report. */
async function openSource(
  source: SourceSettings,
  about: Pick<TellOnceOptions, 'clock' | 'secrets'> & { metrics: Metrics },
): Promise<SyncedSource> {
  const use: AlertSource['use'] = async (work) => {
    const warehouse = await openWarehouse(source.warehouse, about.clock);
    return work(warehouse).finally(() => warehouse.close());
  };
  const successes = await use(({ own }) => readSuccesses(source, own)).catch(() => new Map<string, never>());
  const parts = storedParts(source, { ...about, successes, read: use, inbox: null });
  return { parts, name: source.name, isLed: () => true, use };
}
