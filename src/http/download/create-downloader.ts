import PQueue from 'p-queue';
import type { Lane } from '../../model/vocabulary.ts';
import type { ClientParts } from '../create-client.ts';
import { createAgent, createExchange } from '../exchange.ts';
import { createJudge } from '../outcome/outcome-table.ts';
import type { Attempt, Governor } from '../rate-limit/rate-limiter.ts';
import { createRetryQuota, type RetryQuota } from '../request-loop.ts';
import { guardedConnector, type Resolve } from './addresses.ts';
import { downloadFile, type DownloadParts } from './download-file.ts';
import type { Downloaded, DownloadRequest } from './download-request.ts';

/** Fetches files to a folder. */
export interface Downloader {
  /**
   * Throws `SyncError` with recovery `retry` (network, 5xx, lost midway), the `DeferredError` of a governor,
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
  /** Opens the governor of an origin besides the service's; the downloader closes it. */
  openGovernor: (origin: string) => Promise<Governor>;
  /** Resolves names; that of the system if absent. */
  resolve?: Resolve | undefined;
}

/** Fetches the files of one source. */
export function createDownloader({ client, allowHosts, openGovernor, resolve }: DownloaderOptions): Downloader {
  const others = new OtherOrigins(openGovernor);
  const { network } = client.way;
  // The certificate of this client is for the service alone.
  const way = { ...client.way, network: network && { proxies: network.proxies, ca: network.ca } };
  const agent = createAgent(client.http, way, guardedConnector(allowHosts, resolve));
  const { http: httpProxy = '', https: httpsProxy = '' } = network?.proxies ?? {};
  // A large file holds its slot for minutes: where there are several, one is left to those who ask for records.
  const turns = new PQueue({ concurrency: Math.max(1, client.http.concurrency - 1) });
  const parts: DownloadParts = {
    client: {
      ...client,
      governorOf: (url) => ({
        run: (lane, attempt, signal) => turns.add(() => client.governorOf(url).run(lane, attempt, signal)),
      }),
    },
    elsewhere: {
      exchange: createExchange(agent, client.http, client.clock),
      judge: createJudge([]),
      quotaOf: (origin) => others.of(origin).quota,
      governorOf: ({ origin }) => ({ run: (lane, attempt, signal) => others.run(origin, lane, attempt, signal) }),
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
const MOST_IDLE = 64;

interface OtherOrigin {
  /** Opened with its first request. */
  governor: Promise<Governor> | null;
  /** Of its own: one that is down costs the others nothing. */
  quota: RetryQuota;
  users: number;
}

/** The origins that files come from besides the service's. */
class OtherOrigins {
  readonly #open: DownloaderOptions['openGovernor'];
  readonly #origins = new Map<string, OtherOrigin>();

  constructor(open: DownloaderOptions['openGovernor']) {
    this.#open = open;
  }

  of(origin: string): OtherOrigin {
    const found = this.#origins.get(origin) ?? { governor: null, quota: createRetryQuota(), users: 0 };
    // The map is in the order of use: the first entry is the least recently used.
    this.#origins.delete(origin);
    this.#origins.set(origin, found);
    return found;
  }

  async run<T>(origin: string, lane: Lane, attempt: Attempt<T>, signal?: AbortSignal): Promise<T> {
    const entry = this.of(origin);
    entry.users += 1;
    try {
      const governor = (entry.governor ??= this.#open(origin));
      // One that cannot be opened is opened by the next who asks.
      governor.catch(() => (entry.governor = null));
      return await (await governor).run(lane, attempt, signal);
    } finally {
      entry.users -= 1;
      await this.#closeIdle();
    }
  }

  async close(): Promise<void> {
    const all = [...this.#origins.values()];
    this.#origins.clear();
    for (const { governor } of all) await (await governor)?.close();
  }

  async #closeIdle(): Promise<void> {
    for (const [origin, { governor, users }] of this.#origins) {
      if (this.#origins.size <= MOST_IDLE) return;
      if (users > 0) continue;
      this.#origins.delete(origin);
      await (await governor)?.close();
    }
  }
}
