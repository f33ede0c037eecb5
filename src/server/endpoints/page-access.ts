// Decides who may see the status page. With a password in the settings: clients that send it; wrong ones are delayed. Without
// one: clients that request an address or a name of this machine (Host header).
import { hash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import type { ServeSettings } from '../../config/settings.ts';
import { createCountToLog } from '../rare-log.ts';

/**
 * `granted`: the client may see everything. `anonymous`: it sent no password. `wrong`: it sent a wrong name or password.
 * `busy`: it did, while many other wrong ones were delayed. `other_host`: its Host header does not name this machine.
 */
export type PageAccess = 'granted' | 'anonymous' | 'wrong' | 'busy' | 'other_host';

/** Decides by the headers of a request whether its client may see the pages. */
export type AccessCheck = (headers: Headers) => Promise<PageAccess>;

export interface AccessOptions {
  /** Without `auth`, no password is needed. */
  serve: ServeSettings;
  clock: Clock;
  /** Called for each wrong name or password. */
  onWrongPassword: () => void;
}

/** Delay of the response to a wrong password. */
const DELAY_MS = 2_000;
/** Fewer than the pages that the server makes in parallel, so that delayed responses block no other client. */
const MAX_DELAYED = 8;

/** The right password is never delayed or refused, however many wrong ones arrive. */
export function createAccessCheck({ serve, clock, onWrongPassword }: AccessOptions): AccessCheck {
  let delayed = 0;
  const { auth, host, hosts } = serve;
  return async (headers) => {
    if (auth === undefined)
      return isTrustedHost(headers.get('host') ?? '', [...hosts, host]) ? 'granted' : 'other_host';
    const header = headers.get('authorization');
    if (header === null) return 'anonymous';
    if (isAuthorized(auth, header)) return 'granted';
    onWrongPassword();
    if (delayed >= MAX_DELAYED) return 'busy';
    delayed += 1;
    await clock.sleep(DELAY_MS).finally(() => (delayed -= 1));
    return 'wrong';
  };
}

/** Names for private use: they cannot be registered. */
const PRIVATE_NAME = /\.(?:localhost|local|internal|home\.arpa|svc|test)$/;

/**
 * Prevents DNS rebinding: the owner of `evil.example` can point that name at this machine, and a script of theirs in a user's
 * browser could then read the page. IP addresses, names without a dot and private names cannot be misused like that.
 */
function isTrustedHost(host: string, hosts: readonly string[]): boolean {
  const name = host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  if (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0 || !name.includes('.')) return true;
  return PRIVATE_NAME.test(name) || hosts.some((one) => one.toLowerCase() === name);
}

/** The header that makes a browser ask its user for a name and a password. */
export const CHALLENGE = 'Basic realm="content-sync", charset="UTF-8"';

/** Returns `name:password` as sent (RFC 7617); empty if the header has another form. */
function decodeBasicAuth(authorization: string): Buffer {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  return Buffer.from(encoded ?? '', 'base64');
}

/** Takes the same time for every wrong password, so that the time reveals no part of the right one. */
function isAuthorized({ user, password }: NonNullable<ServeSettings['auth']>, authorization: string): boolean {
  const sent = hash('sha256', decodeBasicAuth(authorization), 'buffer');
  return timingSafeEqual(sent, hash('sha256', `${user}:${password}`, 'buffer'));
}

/** Creates the function that counts wrong passwords in a metric, and logs some of them. */
export function createWrongPasswordReporter(metrics: Metrics, log: Logger, clock: Clock): () => void {
  const countToLog = createCountToLog(clock);
  return () => {
    metrics.counters.refusals.inc();
    const count = countToLog('password');
    if (count !== null) log.warn({ count }, 'a wrong name or password was sent for the page');
  };
}
