import type { Clock } from '../../model/clock.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import type { GovernorProgress, ProgressUpdate } from '../../observe/progress.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { RunReport } from '../../sync/report.ts';
import type { Scheduler } from '../../trigger/schedule/scheduler.ts';
import type { ControlAnswer, ControlOrigin, ControlRequest } from './control-request.ts';

/** A walk under way, as one who follows it sees it. */
export interface WalkNews extends ProgressUpdate {
  resource: string;
  mode: WalkMode;
  governor: GovernorProgress | null;
}

/** Passes a request on to the process that leads the source; `report` settles with the walks, if any were begun. */
export type AskElsewhere = (
  request: ControlRequest,
  origin: ControlOrigin,
) => Promise<{ answer: ControlAnswer; report: Promise<RunReport> | null }>;

/** A source that is kept fresh, as the controls see it. */
export interface ControlledSource {
  source: SourceSettings;
  clock: Clock;
  /** Null while this process does not lead the source, or has not opened it yet. */
  scheduler(): Pick<Scheduler, 'walkNow' | 'figures'> | null;
  /** Non-null if another process leads the source. */
  elsewhere(): AskElsewhere | null;
  /** Forgets what was refused of these resources, with `now` also waits that the service has stated; looks what is due. */
  retry(resources: readonly string[], now: boolean): Promise<void>;
  /** Called when resources have been paused or resumed. */
  pausesChanged(): Promise<void>;
  /** Called when deliveries or decisions wait. */
  wake(): void;
  /** The walk of a resource that is under way; null if there is none. */
  walk(resource: string): Promise<WalkNews | null>;
}
