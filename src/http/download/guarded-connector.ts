import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import type { SyncError } from '../../model/errors.ts';
import type { ConnectorMaker } from '../dispatcher.ts';
import { addressRefused, bareHost, isAllowedHost, isPublicAddress } from './address-rules.ts';

/** Resolves a name to all its addresses, as `dns.lookup` does. */
export type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A connector that connects to public addresses alone, and to the hosts that are allowed. The addresses that are checked
 * are those that are connected to: a name that resolves to another one a moment later gains nothing by it.
 */
export function guardedConnector(allowed: readonly string[], resolve: Resolve = systemLookup): ConnectorMaker {
  return (options) => {
    const open = buildConnector({ ...options, lookup: lookupBy(resolve, () => true) });
    const guarded = buildConnector({ ...options, lookup: lookupBy(resolve, isPublicAddress) });
    return (target, callback) => {
      const url = new URL(`${target.protocol}//${target.hostname}:${target.port}`);
      const host = bareHost(target.hostname);
      if (isAllowedHost(url, allowed)) open(target, callback);
      // Of a number nobody asks `lookup`.
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
