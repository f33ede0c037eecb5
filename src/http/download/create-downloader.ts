// Creates the downloader of a source: connections and rate limits for its files, at the service and at other hosts (CDNs).
import PQueue from 'p-queue';
import { SharedResources } from '../../model/shared-resources.ts';
import { createAgent, createExchange } from '../exchange.ts';
import { createJudge } from '../outcome/outcome-table.ts';
import type { RateLimiter } from '../rate-limit/rate-limiter.ts';
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

/** Rate limiters of other origins that stay open while they are unused: what they have learned is not lost at once. */
const MAX_UNUSED_LIMITERS = 64;
const UNUSED_LIMITER_MS = 86_400_000;

/** Creates the downloader of one source. */
export function createDownloader({ client, allowHosts, openRateLimiter, resolve }: DownloaderOptions): Downloader {
  const otherLimiters = new SharedResources<RateLimiter>({
    open: openRateLimiter,
    close: async (limiter) => limiter.close(),
    clock: client.clock,
    lingerMs: UNUSED_LIMITER_MS,
  });
  const limiterOfOrigin = (origin: string): { run: RateLimiter['run'] } => ({
    run: async (lane, attempt, signal) => {
      const limiter = await otherLimiters.acquire(origin);
      try {
        return await limiter.value.run(lane, attempt, signal);
      } finally {
        await limiter.release();
        await otherLimiters.closeIdle(MAX_UNUSED_LIMITERS);
      }
    },
  });
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
      limiterFor: ({ origin }) => limiterOfOrigin(origin),
    },
    rules: { allowed: allowHosts, isProxied: httpProxy !== '' || httpsProxy !== '' },
  };
  return {
    download: (request) => downloadFile(parts, request),
    close: async () => {
      await agent.destroy();
      await otherLimiters.close();
    },
  };
}
