import { getCACertificates } from 'node:tls';
import { Agent, EnvHttpProxyAgent, type buildConnector, type Dispatcher } from 'undici';
import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';

const MAX_HEADER_BYTES = 16_384;

/** The way to the service; without one there is no proxy, and the usual authorities are trusted. */
export interface Way {
  network: Network | undefined;
  /** PEM of a further authority to trust. */
  ca: string | undefined;
  /** Accepts any certificate; for tests only. */
  insecure: boolean;
}

/** Makes the connector of an agent out of its options; it is not asked about connections of a proxy. */
export type ConnectorMaker = (options: buildConnector.BuildOptions) => buildConnector.connector;

/** Connections to the service: HTTP/1.1, kept alive, as many as the profile allows, certificates always checked. */
export function createAgent(http: HttpProfile, { network, ca, insecure }: Way, make?: ConnectorMaker): Dispatcher {
  const further = [network?.ca, ca].filter((text) => text !== undefined);
  const authorities = further.length === 0 ? {} : { ca: [...getCACertificates('default'), ...further] };
  const { cert, key, passphrase } = network ?? {};
  const proof = cert === undefined ? {} : { cert, key, passphrase };
  const tls = { timeout: http.headers_timeout, rejectUnauthorized: !insecure, ...authorities };
  const connect = { ...tls, ...proof };
  const options = {
    connections: http.concurrency,
    allowH2: false,
    headersTimeout: http.headers_timeout,
    // The total deadline covers the body: a timeout between chunks does not end a drip.
    bodyTimeout: 0,
    maxHeaderSize: MAX_HEADER_BYTES,
    connect: make === undefined ? connect : make({ ...connect, allowH2: false }),
  };
  const { http: httpProxy = '', https: httpsProxy = '', except: noProxy = '' } = network?.proxies ?? {};
  if (httpProxy === '' && httpsProxy === '') return new Agent(options);
  // The certificate is for the service; a proxy gets none.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy,
    httpsProxy,
    noProxy,
    requestTls: { ...tls, ...proof },
    proxyTls: tls,
  });
}
