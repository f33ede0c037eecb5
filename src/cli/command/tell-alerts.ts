import { alertSettings } from '../../serve/alerts/alerts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

/** A source that this process has synced itself; a running `serve` reports what it has synced. */
export interface SyncedAlone {
  chosen: ChosenSource;
  settings: Settings;
}

/** Reports at the end of a command, unless it was interrupted. Waits some seconds at most; never throws. */
export async function reportAlerts(context: CliContext, synced: readonly SyncedAlone[]): Promise<void> {
  const [first] = synced;
  if (first === undefined || context.signal.aborted || Object.keys(first.settings.alerts).length === 0) return;
  const { log } = first.chosen;
  try {
    const { tellOnce } = await import('../../serve/alerts/tell-once.ts');
    const sources = synced.map(({ chosen }) => chosen.source);
    await tellOnce({ ...context, ...alertSettings(first.settings), sources, log });
  } catch (error) {
    log.warn({ error }, 'alerts could not be reported');
  }
}
