// Who may see the status page: checks the password, with delays after wrong ones; without a password the Host header.
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import type { ServeSettings } from '../../config/settings.ts';
import { createCountToLog } from '../rare-log.ts';

/**
 * `granted`: may see everything. `anonymous`: sent no name and password although they are required. `wrong`: sent wrong
 * ones. `busy`: the same, while too many others wait. `other_host`: requested a host that is not this one.
 */
export type PageAccess = 'granted' | 'anonymous' | 'wrong' | 'busy' | 'other_host';

/** Decides by the headers of a request whether its client may see the pages. */
export type AccessCheck = (headers: Headers) => Promise<PageAccess>;

export interface AccessOptions {
  /** Without `auth`, everybody may see everything. */
  serve: ServeSettings;
  clock: Clock;
  /** Called for each wrong name or password. */
  refused: () => void;
}

/** The response to a wrong password is delayed. */
const DELAY_MS = 2_000;
/** Less than the pages that may be in progress, so that guesses keep no one from the page. */
const MAX_DELAYED = 8;

/** The right password is neither delayed nor refused, whatever else is sent. */
export function createAccessCheck({ serve, clock, refused }: AccessOptions): AccessCheck {
  let delayed = 0;
  const { auth, host, hosts } = serve;
  return async (headers) => {
    if (auth === undefined)
      return isTrustedHost(headers.get('host') ?? '', [...hosts, host]) ? 'granted' : 'other_host';
    const header = headers.get('authorization');
    if (header === null) return 'anonymous';
    if (isAuthorized(auth, header)) return 'granted';
    refused();
    if (delayed >= MAX_DELAYED) return 'busy';
    delayed += 1;
    await clock.sleep(DELAY_MS).finally(() => (delayed -= 1));
    return 'wrong';
  };
}

/** Endings of names that cannot be registered. */
const PRIVATE = /\.(?:localhost|local|internal|home\.arpa|svc|test)$/;

/**
 * Returns false for a name whose owner may make it lead here (DNS rebinding), to read this page in a visitor's browser.
 * Addresses, names without a dot and those for private use have no such owner.
 */
function isTrustedHost(host: string, hosts: readonly string[]): boolean {
  const name = host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  if (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0 || !name.includes('.')) return true;
  return PRIVATE.test(name) || hosts.some((one) => one.toLowerCase() === name);
}

/** Makes a browser request a name and a password. */
export const CHALLENGE = 'Basic realm="content-sync", charset="UTF-8"';

/** Returns name and password as sent (RFC 7617); empty if the header is another one. */
function credentialsIn(authorization: string): Buffer {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  return Buffer.from(encoded ?? '', 'base64');
}

/** Takes the same time however much of the password is right. */
function isAuthorized({ user, password }: NonNullable<ServeSettings['auth']>, authorization: string): boolean {
  return timingSafeEqual(digest(credentialsIn(authorization)), digest(Buffer.from(`${user}:${password}`)));
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** Returns what to call for each wrong name or password (`refused` above): it counts them, and logs some. */
export function refusalNote(metrics: Metrics, log: Logger, clock: Clock): () => void {
  const countToLog = createCountToLog(clock);
  return () => {
    metrics.counters.refusals.inc();
    const count = countToLog('password');
    if (count !== null) log.warn({ count }, 'a wrong name or password was sent for the page');
  };
}
