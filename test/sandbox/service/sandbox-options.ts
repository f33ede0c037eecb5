import type { Sort } from '../../../src/sandbox/records/collection.ts';
import type { FaultScript } from './faults/fault-script.ts';
import type { Pagination } from './pages/listing-page.ts';
import type { RateDialect } from './rate-limit.ts';

/** All settings of a sandbox; sizes in bytes, times in milliseconds. */
export interface SandboxSettings {
  /** 0 picks a free one. */
  port: number;
  host: string;
  /** Made up when null, like the secret of the OAuth client. */
  apiKey: string | null;
  clientId: string;
  clientSecret: string | null;
  /** A folder with `<resource>.ndjson` and `files/`. */
  data: string | null;
  /** Records to make up, by resource; any name is a resource. */
  generate: Readonly<Record<string, number>>;
  pagination: Pagination;
  /** False: does not tell how many records there are. */
  total: boolean;
  /** By (updated_at, id) or in no order. */
  sort: Sort;
  /** Page size where none is asked for, and the largest page: a larger `limit` is cut to it. */
  limit: number;
  maxLimit: number;
  /** Listings show a write so much later. */
  visibilityLag: number;
  /** Every answer waits so long. */
  latency: number;
  /** The service is ahead by (negative: behind). */
  clockSkew: number;
  /** Requests per second that are allowed; that may come at once, the rate when null; that may be under way at once. */
  rate: number | null;
  burst: number | null;
  concurrency: number | null;
  rateHeaders: RateDialect;
  /** Names of reports by day. */
  report: readonly string[];
  /** Figures of a report change so many days after their day. */
  restate: number;
  /** Rows that a report lists per query. */
  windowCap: number | null;
  reportStart: string;
  /** Another one gives other figures in reports. */
  seed: number;
  /** Wait before a webhook is sent again; doubles. */
  webhookRetry: number;
  /** Compresses answers for clients that take it. */
  gzip: boolean;
  /** Largest body of a request. */
  maxBody: number;
  /** Memory for ready-made pages. */
  cache: number;
  fault: readonly FaultScript[];
}

const MIB = 1_048_576;

const DEFAULTS: SandboxSettings = {
  port: 0,
  host: '127.0.0.1',
  apiKey: null,
  clientId: 'content-sync',
  clientSecret: null,
  data: null,
  generate: {},
  pagination: 'cursor',
  total: true,
  sort: 'updated',
  limit: 100,
  maxLimit: 1_000,
  visibilityLag: 0,
  latency: 0,
  clockSkew: 0,
  rate: null,
  burst: null,
  concurrency: null,
  rateHeaders: 'ietf',
  report: [],
  restate: 3,
  windowCap: null,
  reportStart: '2025-01-01',
  seed: 1,
  webhookRetry: 1_000,
  gzip: false,
  maxBody: MIB,
  cache: 256 * MIB,
  fault: [],
};

/** The given settings, with defaults for the others. */
export function settingsFrom(given: Partial<SandboxSettings>): SandboxSettings {
  return { ...DEFAULTS, ...given };
}
