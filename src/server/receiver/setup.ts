import type { Clock } from '../../model/clock.ts';
import type { WebhookSettings } from '../../config/settings.ts';
import type { WebhookProfile } from '../../config/profile/webhooks.ts';

/** A source that receives webhooks. */
export interface ReceivedSource {
  name: string;
  /** As `inboxAddress` makes it. */
  inbox: string;
  /** `workers`: the transaction of each delivery also asks the processes on the same Postgres to work on it. */
  asks?: 'nobody' | 'workers';
  webhook: WebhookSettings;
  profile: WebhookProfile;
  /** Paths of record fields that are not stored; none if absent. */
  hidden?: readonly string[];
}

/** An event that the receiver logs. */
export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  /** Message of the error that was thrown. */
  error?: string;
  /** Why a request was refused; or how often several were, by reason. */
  reason?: string;
  count?: number;
  reasons?: Readonly<Record<string, number>>;
}

/** Times in milliseconds, sizes in bytes. */
export const RECEIVER_LIMITS = {
  /** Until the headers of a request have arrived, and until all of it has. */
  headersMs: 10_000,
  requestMs: 15_000,
  /** How often these two are checked. */
  checkMs: 1_000,
  /** A connection without a request: proxies commonly keep theirs for 60 s. */
  keepAliveMs: 65_000,
  connections: 2_000,
  /** Requests of a connection, and refused ones in a row, after which it is closed. */
  requests: 10_000,
  refusals: 100,
  /** Open requests of one connection. */
  pipelined: 8,
  /** All bodies that are being received or stored. */
  bodyBytes: 64 * 1_048_576,
  /** Time to store a delivery before the sender is asked to repeat it: the most impatient sender waits 2 s. */
  storeMs: 800,
  /** Deliveries of a source that wait to be stored. */
  stored: 10_000,
  /** A form of the page. */
  formBytes: 16_384,
  /** Time to make a page, and pages that are made in parallel. */
  pageMs: 5_000,
  pages: 32,
  /** A response is cut if its client reads nothing for this time. */
  idleMs: 30_000,
  /** How often waiting deliveries are counted. */
  countMs: 1_000,
  /** Time to finish open requests when the process stops. */
  closeMs: 2_000,
};

export type ReceiverLimits = typeof RECEIVER_LIMITS;

const MAX_REPORTED_PER_MINUTE = 10;
const MINUTE_MS = 60_000;

/** One refusal with its reason, or how many more there were in a minute. */
export type ToldRefusal = { source?: string } & (
  | { reason: string }
  | { count: number; reasons: Readonly<Record<string, number>> }
);

export interface RefusalLog {
  /** `source` is null for a request to an unknown source, or to none. */
  refused(source: string | null, reason: string): void;
  /** Reports the refusals that were only counted, of minutes that are over or of `all`. */
  flush(all?: boolean): void;
}

/** Reports the first refusals of each source in a minute one by one, and the number of the others. */
export function createRefusalLog(report: (refusal: ToldRefusal) => void, clock: Pick<Clock, 'monotonic'>): RefusalLog {
  const minutes = new Map<string | null, { begun: number; reported: number; more: Record<string, number> }>();
  const flush = (all = false): void => {
    for (const [source, { begun, more }] of minutes) {
      if (!all && clock.monotonic() - begun < MINUTE_MS) continue;
      minutes.delete(source);
      const count = Object.values(more).reduce((sum, one) => sum + one, 0);
      if (count > 0) report({ ...(source !== null && { source }), count, reasons: more });
    }
  };
  return {
    refused: (source, reason) => {
      flush();
      const minute = minutes.get(source) ?? { begun: clock.monotonic(), reported: 0, more: {} };
      minutes.set(source, minute);
      minute.reported += 1;
      if (minute.reported <= MAX_REPORTED_PER_MINUTE) report({ ...(source !== null && { source }), reason });
      else minute.more[reason] = (minute.more[reason] ?? 0) + 1;
    },
    flush,
  };
}
