import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import { SyncError } from '../../model/errors.ts';
import type { ConnectorMaker } from '../exchange.ts';

/** From where files may come. */
export interface AddressRules {
  /** Hosts, or host:port, that may be asked although they are private: `files.allow_hosts`. */
  allowed: readonly string[];
  /** A proxy resolves names, so their addresses are not visible here. */
  isProxied: boolean;
}

/** What an operator does about an address that is refused and right all the same. */
const HINT = 'If files are to come from there, name the host in files.allow_hosts of the source.';

/** Names that only a private network resolves (RFC 6761, 6762, 8375 and the private-use name of ICANN). */
const PRIVATE_NAME = /(?:^|\.)(?:localhost|local|internal|intranet|lan|home\.arpa)$/;

/**
 * True for an address of the public internet, in whatever spelling; of IPv6 only what is given out (2000::/3), so that no
 * future range is public by default.
 */
function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed instanceof ipaddr.IPv4 || ((parsed.parts[0] ?? 0) & 0xe000) === 0x2000;
}

/** True for a host that the settings name: with this port, or without any. */
export function isAllowedHost({ hostname, port, protocol }: URL, allowed: readonly string[]): boolean {
  const own = `${hostname.replace(/\.$/, '')}:${port || (protocol === 'https:' ? '443' : '80')}`;
  return allowed.some((entry) => {
    const [, host = '', wanted] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [];
    const written = URL.parse(`http://${host}/`)?.hostname.replace(/\.$/, '') ?? '';
    return own === `${written}:${wanted ?? own.slice(own.lastIndexOf(':') + 1)}`;
  });
}

/**
 * Throws `SyncError` (`file_address`) for an address that is private by what is written. `URL` has read every spelling of
 * a number (decimal, octal, hexadecimal) by then, and refused a zone. Names are judged when they are resolved.
 */
export function refusePrivate(url: URL, { allowed, isProxied }: AddressRules): void {
  if (isAllowedHost(url, allowed)) return;
  const host = bareHost(url.hostname);
  const isNumber = ipaddr.isValid(host);
  if (isNumber && !isPublicAddress(host)) throw addressRefused(`${host} is no address of the public internet`);
  if (isNumber || !isProxied) return;
  const name = host.replace(/\.$/, '');
  if (PRIVATE_NAME.test(name) || !name.includes('.')) throw addressRefused(`${name} is a name of a private network`);
}

function addressRefused(message: string): SyncError {
  return new SyncError('file_address', message, { recovery: 'skip', hint: HINT });
}

/** Without the brackets of an IPv6 address. */
function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Resolves a name to all its addresses, as `dns.lookup` does. */
export type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * Connects to public addresses and to allowed hosts only. It connects to the very addresses that it checks, so a name
 * that resolves to another one later (DNS rebinding) has no effect.
 */
export function guardedConnector(allowed: readonly string[], resolve: Resolve = systemLookup): ConnectorMaker {
  return (options) => {
    const open = buildConnector({ ...options, lookup: lookupBy(resolve, () => true) });
    const guarded = buildConnector({ ...options, lookup: lookupBy(resolve, isPublicAddress) });
    return (target, callback) => {
      const url = new URL(`${target.protocol}//${target.hostname}:${target.port}`);
      const host = bareHost(target.hostname);
      if (isAllowedHost(url, allowed)) open(target, callback);
      // An address needs no `lookup`.
      else if (ipaddr.isValid(host) && !isPublicAddress(host)) callback(notPublic(host), null);
      else guarded(target, callback);
    };
  };
}

/** One address that must not be asked is enough to refuse all that a name resolves to. */
function lookupBy(resolve: Resolve, mayBeAsked: (address: string) => boolean): LookupFunction {
  return (hostname, options, done) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? [];
      const hidden = addresses?.find(({ address }) => !mayBeAsked(address));
      if (error !== null) done(error, []);
      else if (first === undefined) done(noAddress(hostname), []);
      else if (hidden !== undefined) done(notPublic(`${hostname} resolves to ${hidden.address}, which`), []);
      else if (options.all === true) done(null, addresses);
      else done(null, first.address, first.family);
    });
  };
}

function notPublic(what: string): SyncError {
  return addressRefused(`${what} is no address of the public internet`);
}

function noAddress(hostname: string): Error {
  return Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
}
