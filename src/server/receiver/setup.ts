// What a receiver is set up with: its sources, its limits, and the notes that it writes to the log.
import type { WebhookProfile } from '../../config/profile/signature-scheme.ts';
import type { WebhookSettings } from '../../config/settings.ts';

export interface ReceivedSource {
  name: string;
  /** As `inboxAddress` makes it. */
  inbox: string;
  /** True on Postgres: the transaction that stores a delivery also queues it for all processes of the cluster. */
  isQueued?: boolean;
  webhook: WebhookSettings;
  profile: WebhookProfile;
  /** Paths of record fields that are not stored; none if absent. */
  hidden?: readonly string[];
}

export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  /** Message of the error that was thrown. */
  error?: string;
  /** Why requests were refused, and how many. */
  reason?: string;
  count?: number;
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
  /** Requests after which a connection is closed. */
  requests: 10_000,
  /** All bodies that are being received or stored. */
  bodyBytes: 64 * 1_048_576,
  /** Time to store a delivery before the sender has to repeat it: the shortest timeout of a sender is 2 s. */
  storeMs: 800,
  /** Deliveries of a source that wait to be stored. */
  stored: 10_000,
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
