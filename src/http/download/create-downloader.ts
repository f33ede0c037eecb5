import PQueue from 'p-queue';
import type { Lane } from '../../model/vocabulary.ts';
import type { ClientParts } from '../create-client.ts';
import { createAgent, createExchange } from '../exchange.ts';
import { createJudge } from '../outcome/outcome-table.ts';
import type { RequestAttempt, RateLimiter } from '../rate-limit/rate-limiter.ts';
import { createRetryQuota, type RetryQuota } from '../request-loop.ts';
import { guardedConnector, type Resolve } from './addresses.ts';
import { downloadFile, type DownloadParts } from './download-file.ts';
import type { Downloaded, DownloadRequest } from './download-request.ts';

/** Fetches files to a folder. */
export interface Downloader {
  /**
   * Throws `SyncError` with recovery `retry` (network, 5xx, lost midway), the `DeferredError` of a rate limiter,
   * `file_store_full` where there is no room for the unfinished file, and the signal's reason.
   */
  download(request: DownloadRequest): Promise<Downloaded>;
  close(): Promise<void>;
}

export interface DownloaderOptions {
  /** Of the client of the service: the same credential, the same limits, the same connections. */
  client: ClientParts;
  /** `files.allow_hosts`. */
  allowHosts: readonly string[];
  /** Opens the rate limiter of an origin besides the service's; the downloader closes it. */
  openRateLimiter: (origin: string) => Promise<RateLimiter>;
  /** Resolves names; that of the system if absent. */
  resolve?: Resolve | undefined;
}

/** Fetches the files of one source. */
export function createDownloader({ client, allowHosts, openRateLimiter, resolve }: DownloaderOptions): Downloader {
  const others = new OtherOrigins(openRateLimiter);
  const { network } = client;
  // The certificate of this client is for the service alone.
  const withoutCertificate = network && { proxies: network.proxies, ca: network.ca };
  const agent = createAgent(client.http, withoutCertificate, guardedConnector(allowHosts, resolve));
  const { http: httpProxy = '', https: httpsProxy = '' } = network?.proxies ?? {};
  // A large file holds its slot for minutes: where there are several, one is left to those who ask for records.
  const turns = new PQueue({ concurrency: Math.max(1, client.http.concurrency - 1) });
  const parts: DownloadParts = {
    client: {
      ...client,
      limiterFor: (url) => ({
        run: (lane, attempt, signal) => turns.add(() => client.limiterFor(url).run(lane, attempt, signal)),
      }),
    },
    elsewhere: {
      exchange: createExchange(agent, client.http, client.clock),
      judge: createJudge([]),
      quotaOf: (origin) => others.of(origin).quota,
      limiterFor: ({ origin }) => ({ run: (lane, attempt, signal) => others.run(origin, lane, attempt, signal) }),
    },
    rules: { allowed: allowHosts, isProxied: httpProxy !== '' || httpsProxy !== '' },
  };
  return {
    download: (request) => downloadFile(parts, request),
    close: async () => {
      await agent.destroy();
      await others.close();
    },
  };
}

/** Max origins to remember; the least recently used are closed. */
const MAX_ORIGINS = 64;

interface OtherOrigin {
  /** Opened with its first request. */
  rateLimiter: Promise<RateLimiter> | null;
  /** Of its own: one that is down costs the others nothing. */
  quota: RetryQuota;
  users: number;
}

/** The origins that files come from besides the service's. */
class OtherOrigins {
  readonly #open: DownloaderOptions['openRateLimiter'];
  readonly #origins = new Map<string, OtherOrigin>();

  constructor(open: DownloaderOptions['openRateLimiter']) {
    this.#open = open;
  }

  of(origin: string): OtherOrigin {
    const found = this.#origins.get(origin) ?? { rateLimiter: null, quota: createRetryQuota(), users: 0 };
    // The map is in the order of use: the first entry is the least recently used.
    this.#origins.delete(origin);
    this.#origins.set(origin, found);
    return found;
  }

  async run<T>(origin: string, lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T> {
    const entry = this.of(origin);
    entry.users += 1;
    try {
      const rateLimiter = (entry.rateLimiter ??= this.#open(origin));
      // One that cannot be opened is opened by the next who asks.
      rateLimiter.catch(() => (entry.rateLimiter = null));
      return await (await rateLimiter).run(lane, attempt, signal);
    } finally {
      entry.users -= 1;
      await this.#closeIdle();
    }
  }

  async close(): Promise<void> {
    const all = [...this.#origins.values()];
    this.#origins.clear();
    for (const { rateLimiter } of all) await (await rateLimiter)?.close();
  }

  async #closeIdle(): Promise<void> {
    for (const [origin, { rateLimiter, users }] of this.#origins) {
      if (this.#origins.size <= MAX_ORIGINS) return;
      if (users > 0) continue;
      this.#origins.delete(origin);
      await (await rateLimiter)?.close();
    }
  }
}
