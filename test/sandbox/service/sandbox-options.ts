import type { FaultScript } from './faults/fault-script.ts';
import type { Pagination } from './pages/listing-page.ts';

const MIB = 1_048_576;

/** Gives a default the type of its setting. */
const typed = <T>(value: T): T => value;

/** All settings of the service with their defaults; sizes in bytes, times in milliseconds. */
const DEFAULTS = {
  /** 0 picks a free port. */
  port: 0,
  host: '127.0.0.1',
  /** Generated if null, like the secret of the OAuth client. */
  apiKey: typed<string | null>(null),
  clientId: 'content-sync',
  clientSecret: typed<string | null>(null),
  /** A folder with `<resource>.ndjson` and `files/`. */
  data: typed<string | null>(null),
  /** Records to generate, by resource; any name is a resource. */
  generate: typed<Readonly<Record<string, number>>>({}),
  pagination: typed<Pagination>('cursor'),
  /** False to leave out the number of records. */
  total: true,
  /** The order of listings; by id, a changed record stays in its place. */
  sort: typed<'updated' | 'id'>('updated'),
  /** Default page size, and the maximum to which a larger `limit` is cut. */
  limit: 100,
  maxLimit: 1_000,
  /** Delay of every response. */
  latency: 0,
  /** Difference to the machine's clock; negative if the service is behind. */
  clockSkew: 0,
  /** Allowed requests per second; requests at once (the rate if null); requests in flight. */
  rate: typed<number | null>(null),
  burst: typed<number | null>(null),
  concurrency: typed<number | null>(null),
  /** Names of reports by day. */
  report: typed<readonly string[]>([]),
  /** Maximum number of rows that a report lists per query. */
  windowCap: typed<number | null>(null),
  reportStart: '2025-01-01',
  /** Delay before a webhook is sent again; it doubles each time. */
  webhookRetry: 1_000,
  /** True to compress responses for clients that accept it. */
  gzip: false,
  /** Maximum size of an uploaded file. */
  maxBody: MIB,
  /** Memory for pages that are rendered in advance. */
  cache: 256 * MIB,
  fault: typed<readonly FaultScript[]>([]),
};

export type SandboxSettings = typeof DEFAULTS;

/** Completes the given settings with defaults. */
export function settingsFrom(given: Partial<SandboxSettings>): SandboxSettings {
  return { ...DEFAULTS, ...given };
}
