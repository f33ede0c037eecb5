// Who may see the status page: checks the password, with delays after wrong ones; without a password the Host header.
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import type { ServeSettings } from '../../config/settings.ts';

/**
 * `granted`: may see everything. `anonymous`: sent no name and password although they are required. `wrong`: sent wrong
 * ones. `busy`: the same, while too many others wait. `other_host`: requested a host that is not this one.
 */
export type PageAccess = 'granted' | 'anonymous' | 'wrong' | 'busy' | 'other_host';

/** Decides by the headers of a request, and the address of its client, whether the client may see the pages. */
export type AccessCheck = (headers: Headers, client: string) => Promise<PageAccess>;

export interface AccessOptions {
  /** Without `auth`, everybody may see everything. */
  serve: ServeSettings;
  clock: Clock;
  /** Called for each wrong name or password, with the number in the last minutes. */
  refused: (lately: number) => void;
}

/** The response to a wrong password is delayed, twice as long each time, per client and user name and for a minute. */
const MIN_DELAY_MS = 100;
const MAX_DELAY_MS = 2_000;
const FORGET_MS = 60_000;
/** Less than the pages that may be in progress, so that guesses keep no one from the page. */
const MAX_DELAYED = 8;
const MAX_COUNTED = 1_000;

/** The right password is neither delayed nor refused, whatever else is sent. */
export function createAccessCheck({ serve, clock, refused }: AccessOptions): AccessCheck {
  const counted = new Map<string, { count: number; at: number }>();
  let waiting = 0;

  function countWrong(sender: string): number {
    const now = clock.monotonic();
    const { count, at } = counted.get(sender) ?? { count: 0, at: now };
    const lately = now - at > FORGET_MS ? 1 : count + 1;
    counted.delete(sender);
    counted.set(sender, { count: lately, at: now });
    const [oldest] = counted.keys();
    if (counted.size > MAX_COUNTED && oldest !== undefined) counted.delete(oldest);
    return lately;
  }

  async function refuseWrong(sender: string): Promise<PageAccess> {
    refused(countWrong(''));
    const lately = countWrong(sender);
    if (waiting >= MAX_DELAYED) return 'busy';
    waiting += 1;
    await clock.sleep(Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** (lately - 1))).finally(() => (waiting -= 1));
    return 'wrong';
  }

  const { auth, host, hosts } = serve;
  return async (headers, client) => {
    if (auth === undefined)
      return isTrustedHost(headers.get('host') ?? '', [...hosts, host]) ? 'granted' : 'other_host';
    const header = headers.get('authorization');
    if (header === null) return 'anonymous';
    if (isAuthorized(auth, header)) return 'granted';
    const [user = ''] = credentialsIn(header).toString().split(':', 1);
    return refuseWrong(`${client} ${user.slice(0, 64)}`);
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

/** Counts and logs wrong names and passwords: the 1st, 2nd, 4th, 8th and so on. */
export function refusalNote(metrics: Metrics, log: Logger): (lately: number) => void {
  return (lately) => {
    metrics.pageRefused();
    if (Number.isInteger(Math.log2(lately))) log.warn({ lately }, 'a wrong name or password was sent for the page');
  };
}
