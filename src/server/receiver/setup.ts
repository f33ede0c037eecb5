// The options of the receiver, the HTTP server that accepts webhook deliveries: its sources, its limits (anyone on the network
// may send requests), and the notes that it writes to the log.
import type { WebhookProfile } from '../../config/profile/signature-scheme.ts';
import type { WebhookSettings } from '../../config/settings.ts';

export interface ReceivedSource {
  name: string;
  /** The address of its inbox. */
  inbox: string;
  /** True on Postgres: the transaction that stores a delivery also queues it for all processes of the cluster. */
  isQueued?: boolean;
  webhook: WebhookSettings;
  profile: WebhookProfile;
  /** Paths of record fields that are removed from deliveries before they are stored. */
  hidden?: readonly string[];
}

export interface ReceiverNote {
  level: 'info' | 'warn' | 'error';
  event: string;
  source?: string;
  /** Message of the error that was thrown. */
  error?: string;
  /** Why requests were refused, and their number. */
  reason?: string;
  count?: number;
}

/** Times in milliseconds, sizes in bytes. */
export const RECEIVER_LIMITS = {
  /** Timeouts for the headers of a request, and for the whole request. */
  headersMs: 10_000,
  requestMs: 15_000,
  /** Interval in which these two timeouts are checked. */
  checkIntervalMs: 1_000,
  /** Timeout of a connection without a request: longer than the usual 60 s of proxies, so that they close it first. */
  keepAliveMs: 65_000,
  connections: 2_000,
  /** A connection is closed after this many requests. */
  requestsPerConnection: 10_000,
  /** Bytes of all bodies together that are being received or stored. */
  bodyBytes: 64 * 1_048_576,
  /** Timeout for storing a delivery, after which the sender has to repeat it. Senders wait for at least 2 s. */
  storeMs: 800,
  /** Deliveries of one source that wait to be stored. */
  waitingToStore: 10_000,
  /** Timeout for rendering a page, and pages that are rendered in parallel. */
  pageMs: 5_000,
  parallelPages: 32,
  /** A connection is closed if its client reads nothing of the response for this time. */
  idleMs: 30_000,
  /** Interval in which the waiting deliveries are counted. */
  countIntervalMs: 1_000,
  /** Timeout for open requests when the process stops. */
  closeMs: 2_000,
};

export type ReceiverLimits = typeof RECEIVER_LIMITS;
