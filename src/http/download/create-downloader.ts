// Creates the downloader of a source: connections and rate limits for its files, at the service and at other hosts (CDNs).
import PQueue from 'p-queue';
import type { Lane } from '../../model/vocabulary.ts';
import { createAgent, createExchange } from '../exchange.ts';
import { createJudge } from '../outcome/outcome-table.ts';
import type { RateLimiter, RequestAttempt } from '../rate-limit/rate-limiter.ts';
import { type ClientParts, RetryQuota } from '../request-loop.ts';
import { publicConnector, type Resolve } from './addresses.ts';
import { downloadFile, type DownloadParts } from './download-file.ts';
import type { Downloaded, DownloadRequest } from './download-request.ts';

/** Downloads files to a folder. */
export interface Downloader {
  /**
   * Throws `SyncError` with recovery `retry` (network, 5xx, connection lost), the `DeferredError` of a rate limiter,
   * `file_store_full` if the disk is full, and the signal's reason.
   */
  download(request: DownloadRequest): Promise<Downloaded>;
  close(): Promise<void>;
}

export interface DownloaderOptions {
  /** The client of the service, whose credential, limits and connections are used for files of its origin. */
  client: ClientParts;
  /** `files.allow_hosts`. */
  allowHosts: readonly string[];
  /** Opens the rate limiter of an origin besides the service's; the downloader closes it. */
  openRateLimiter: (origin: string) => Promise<RateLimiter>;
  /** Resolves host names; default: the resolver of the system. */
  resolve?: Resolve | undefined;
}

/** Creates the downloader of one source. */
export function createDownloader({ client, allowHosts, openRateLimiter, resolve }: DownloaderOptions): Downloader {
  const others = new OtherOrigins(openRateLimiter);
  const { network } = client;
  // Other origins never get the client certificate.
  const networkWithoutCertificate = network && { proxies: network.proxies, ca: network.ca };
  const agent = createAgent(client.http, networkWithoutCertificate, publicConnector(allowHosts, resolve));
  const { http: httpProxy = '', https: httpsProxy = '' } = network?.proxies ?? {};
  // A large file occupies a slot for minutes, so one slot is reserved for records.
  const queue = new PQueue({ concurrency: Math.max(1, client.http.concurrency - 1) });
  const parts: DownloadParts = {
    client: {
      ...client,
      limiterFor: (url) => ({
        run: (lane, attempt, signal) => queue.add(() => client.limiterFor(url).run(lane, attempt, signal)),
      }),
    },
    quota: new RetryQuota(),
    otherOrigins: {
      exchange: createExchange(agent, client.http, client.clock),
      judge: createJudge([]),
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

/** Max rate limiters that stay open; the least recently used are closed. */
const MAX_ORIGINS = 64;

/** The rate limiters of other origins that files come from. */
class OtherOrigins {
  readonly #open: DownloaderOptions['openRateLimiter'];
  /** The least recently used one comes first. */
  readonly #limiters = new Map<string, { opened: Promise<RateLimiter>; users: number }>();

  constructor(open: DownloaderOptions['openRateLimiter']) {
    this.#open = open;
  }

  async run<T>(origin: string, lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T> {
    const limiter = this.#limiters.get(origin) ?? { opened: this.#open(origin), users: 0 };
    this.#limiters.delete(origin);
    this.#limiters.set(origin, limiter);
    limiter.users += 1;
    try {
      const opened = await limiter.opened.catch((error: unknown) => {
        // The next request opens it again.
        this.#limiters.delete(origin);
        throw error;
      });
      return await opened.run(lane, attempt, signal);
    } finally {
      limiter.users -= 1;
      await this.#closeUnused();
    }
  }

  async close(): Promise<void> {
    for (const origin of this.#limiters.keys()) await this.#closeOne(origin);
  }

  async #closeUnused(): Promise<void> {
    for (const [origin, { users }] of this.#limiters) {
      if (this.#limiters.size <= MAX_ORIGINS) return;
      if (users === 0) await this.#closeOne(origin);
    }
  }

  async #closeOne(origin: string): Promise<void> {
    const opened = this.#limiters.get(origin)?.opened;
    this.#limiters.delete(origin);
    await (await opened)?.close();
  }
}
