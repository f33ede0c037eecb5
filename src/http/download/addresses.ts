// Allows files only from the public internet. The authors of records choose the URLs of files, so one could lead into
// the private network in which content-sync runs (SSRF): `http://169.254.169.254/` has the credentials of a cloud
// machine.
import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import { SyncError } from '../../model/errors.ts';
import type { ConnectorMaker } from '../exchange.ts';

/** Which hosts files can come from. */
export interface AddressRules {
  /** Private hosts, or host:port, that may be requested: `files.allow_hosts`. */
  allowed: readonly string[];
  /** True if a proxy resolves host names, so that their addresses cannot be checked here. */
  isProxied: boolean;
}

/** Names that only a private network resolves (RFC 6761, 6762, 8375 and the private-use name of ICANN). */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa)$/;

/** True for a public IP address; of IPv6 only those in 2000::/3, so that no future range is public by default. */
function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed instanceof ipaddr.IPv4 || ((parsed.parts[0] ?? 0) & 0xe000) === 0x2000;
}

/** True for a host in `files.allow_hosts`, with this port or without a port. */
export function isAllowedHost({ hostname, port, protocol }: URL, allowed: readonly string[]): boolean {
  const requestedHost = hostname.replace(/\.$/, '');
  const requestedPort = port || (protocol === 'https:' ? '443' : '80');
  return allowed.some((entry) => {
    const [, host = '', allowedPort = requestedPort] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [];
    // Written as `URL` writes it, in lower case and punycode, to be compared.
    const allowedHost = URL.parse(`http://${host}/`)?.hostname.replace(/\.$/, '') ?? '';
    return requestedHost === allowedHost && requestedPort === allowedPort;
  });
}

/**
 * Throws `SyncError` (`file_address`) for a URL with a private IP address, in any notation. Names are checked when they are
 * resolved (`publicConnector`), or here if a proxy resolves them.
 */
export function refusePrivateUrl(url: URL, { allowed, isProxied }: AddressRules): void {
  if (isAllowedHost(url, allowed)) return;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (ipaddr.isValid(host)) {
    if (!isPublicAddress(host)) throw addressRefused(`${host} is no address of the public internet`);
  } else if (isProxied && (PRIVATE_NAME.test(host) || !host.includes('.'))) {
    throw addressRefused(`${host} is a name of a private network`);
  }
}

function addressRefused(message: string): SyncError {
  const hint = 'If files are to come from there, name the host in files.allow_hosts of the source.';
  return new SyncError('file_address', message, { recovery: 'skip', hint });
}

/** Resolves a name to all its addresses, as `dns.lookup` does. */
export type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * Creates a connector that connects only to public addresses, unless the host is allowed. It connects to the address that
 * it has checked, so DNS rebinding has no effect.
 */
export function publicConnector(allowed: readonly string[], resolve: Resolve = systemLookup): ConnectorMaker {
  return (options) => {
    const unrestricted = buildConnector({ ...options, lookup: lookupBy(resolve, () => true) });
    const restricted = buildConnector({ ...options, lookup: lookupBy(resolve, isPublicAddress) });
    return (target, callback) => {
      const url = new URL(`${target.protocol}//${target.hostname}:${target.port}`);
      (isAllowedHost(url, allowed) ? unrestricted : restricted)(target, callback);
    };
  };
}

/** Creates a lookup that refuses a name if one of its addresses is not allowed. */
function lookupBy(resolve: Resolve, isAllowed: (address: string) => boolean): LookupFunction {
  return (hostname, options, done) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const refused = addresses?.find(({ address }) => !isAllowed(address));
      if (error !== null) done(error, []);
      else if (refused !== undefined)
        done(addressRefused(`${hostname} resolves to the private ${refused.address}`), []);
      else if (options.all === true) done(null, addresses);
      else done(null, addresses[0]?.address ?? '', addresses[0]?.family ?? 0);
    });
  };
}
