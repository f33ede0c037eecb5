import type { Logger } from 'pino';
import type { AttemptEvent } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { GovernorFigures } from '../queue/governor.ts';
import type { SourceSettings } from '../settings/settings.ts';
import type { RunWatcher } from '../sync/run-options.ts';
import type { DrainEvent } from '../trigger/drain/options.ts';
import type { ScheduleFigures } from '../trigger/schedule/resource.ts';
import type { NameState } from '../warehouse/name-state.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';

/** Hears of all that goes on in a source. Must not throw. */
export interface KeeperWatcher extends RunWatcher {
  attempted(event: AttemptEvent): void;
  settled(event: DrainEvent): void;
}

export interface KeeperOptions {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  secrets: string[];
  watcher: KeeperWatcher;
}

/** Keeps one source fresh by schedule and webhooks until it is stopped; nothing that happens in it ends it. */
export interface SourceKeeper {
  /** Throws why the source cannot be opened where it cannot. */
  warehouse(): Warehouse;
  /** Of the warehouse; `named` where it is not open. */
  nameState(): NameState;
  /** Null while no request goes out from this process. */
  governor(): GovernorFigures | null;
  /** Of what this process schedules; empty where another one does. */
  schedule(): ScheduleFigures[];
  /** Deliveries have come. */
  wake(): void;
  /** Stops what is under way and waits for it. */
  stop(): Promise<void>;
}

/** Between two attempts to open a source that cannot be opened, such as one whose disk is not mounted yet. */
export const REOPEN_MS = 15_000;

export function hintOf(error: unknown): string | undefined {
  return error instanceof SyncError ? error.hint : undefined;
}
