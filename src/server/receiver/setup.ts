import type { WebhookSettings } from '../../config/settings.ts';
import type { WebhookProfile } from '../../config/profile/webhooks.ts';

/** A source that receives webhooks. */
export interface ReceivedSource {
  name: string;
  /** As `inboxAddress` makes it. */
  inbox: string;
  /**
   * Who is asked, with each delivery's own transaction, to work on it. `workers`: any process on the same Postgres that
   * has time. `nobody`, or absent: this process, which is notified.
   */
  asks?: 'nobody' | 'workers';
  webhook: WebhookSettings;
  profile: WebhookProfile;
  /** Paths of fields that are not copied as they are sent, in records that a delivery may hold; none if absent. */
  hidden?: readonly string[];
}

/** An event that the receiver logs; `error` is the message of what was thrown. */
export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  error?: string;
  /** Why a delivery was refused; or how often several were, by reason. */
  reason?: string;
  count?: number;
  reasons?: Readonly<Record<string, number>>;
}

/** Bounds of the receiver: times in milliseconds, sizes in bytes. */
export const RECEIVER_LIMITS = {
  /** Until a request's headers are there, and until all of it is. */
  headersMs: 10_000,
  requestMs: 15_000,
  /** How often connections are looked at for it. */
  checkMs: 1_000,
  /** A connection without a request. The proxies in front of us commonly keep theirs for 60 s. */
  keepAliveMs: 65_000,
  connections: 2_000,
  /** A connection is closed after so many requests, and after so many in a row that were refused. */
  requests: 10_000,
  refusals: 100,
  /** Requests of one connection that may wait for their answer. */
  pipelined: 8,
  /** All bodies that are being received or stored. */
  bodyBytes: 64 * 1_048_576,
  /** How long a delivery may wait to be stored before the sender is asked to repeat it; the tightest one waits 2 s. */
  storeMs: 800,
  /** Deliveries of a source that may wait for that. */
  stored: 10_000,
  /** The form of the page. */
  formBytes: 16_384,
  /** How long a page may take, and how many may be in progress. */
  pageMs: 5_000,
  pages: 32,
  /** Files that are being sent, and how long one may stand still because its reader takes nothing. */
  longBodies: 32,
  longIdleMs: 30_000,
  /** How often it is counted what waits. */
  countMs: 1_000,
  /** For requests that are open when the process is stopped. */
  closeMs: 2_000,
};

export type ReceiverLimits = typeof RECEIVER_LIMITS;
