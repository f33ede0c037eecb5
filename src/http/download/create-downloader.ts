import type { Governor } from '../../queue/governor.ts';
import { createRetryQuota, type RetryQuota } from '../backoff.ts';
import type { ClientParts } from '../create-client.ts';
import { createAgent } from '../dispatcher.ts';
import { createExchange } from '../exchange.ts';
import { createJudge } from '../outcome/outcome.ts';
import { Checkpoints } from './checkpoint.ts';
import type { Downloader } from './downloader.ts';
import { downloadFile, type DownloadParts } from './download-file.ts';
import { guardedConnector, type Resolve } from './guarded-connector.ts';
import { originGovernors } from './origin-governors.ts';

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
  const governors = originGovernors(openGovernor);
  const { network } = client.way;
  // The certificate of this client is for the service alone.
  const way = { ...client.way, network: network && { proxies: network.proxies, ca: network.ca } };
  const agent = createAgent(client.http, way, guardedConnector(allowHosts, resolve));
  const { http: httpProxy = '', https: httpsProxy = '' } = network?.proxies ?? {};
  const parts: DownloadParts = {
    client: { ...client, governorOf: politely(client) },
    elsewhere: {
      exchange: createExchange(agent, client.http, client.clock),
      judge: createJudge([]),
      quotaOf: quotas(),
      governorOf: ({ origin }) => governors.of(origin),
    },
    checkpoints: new Checkpoints(),
    rules: { allowed: allowHosts, isProxied: httpProxy !== '' || httpsProxy !== '' },
  };
  return {
    download: (request) => downloadFile(parts, request),
    close: async () => {
      await agent.destroy();
      await governors.close();
    },
  };
}

/**
 * A large file holds its slot, and a connection, for minutes. One of the service's is left to those who ask for records,
 * where there are several.
 */
function politely({ governorOf, http }: ClientParts): ClientParts['governorOf'] {
  const waiting: (() => void)[] = [];
  let free = Math.max(1, http.concurrency - 1);
  // An abort wakes those who wait as well: it ends those for which they wait.
  const turn = (): Promise<void> | undefined => {
    if (free === 0) return new Promise((resolve) => waiting.push(resolve));
    free -= 1;
    return undefined;
  };
  const passOn = (): void => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return (url) => ({
    run: async (lane, attempt, signal) => {
      await turn();
      try {
        return await governorOf(url).run(lane, attempt, signal);
      } finally {
        passOn();
      }
    },
  });
}

/** More origins than this are not remembered. */
const MOST_QUOTAS = 1_000;

/** A quota of retries for each origin: one that is down costs the others nothing. */
function quotas(): (origin: string) => RetryQuota {
  const known = new Map<string, RetryQuota>();
  return (origin) => {
    if (known.size > MOST_QUOTAS) known.clear();
    const quota = known.get(origin) ?? createRetryQuota();
    known.set(origin, quota);
    return quota;
  };
}
