import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Metrics } from '../../observe/metrics.ts';
import type { ServeSettings } from '../../config/settings.ts';

/**
 * `in`: may see everything. `unnamed`: sent no name and password, though there are some. `wrong`: sent others. `busy`:
 * the same, while too many wrong ones wait for their answer. `elsewhere`: asked for a host that is not this one.
 */
export type Admission = 'in' | 'unnamed' | 'wrong' | 'busy' | 'elsewhere';

/** Decides by the headers of a request, and the address that it came from, which pages its client may see. */
export type Door = (headers: Headers, client: string) => Promise<Admission>;

/** Who may see the pages, and the names by which browsers may know them, besides those that nobody outside can make lead here. */
export type DoorSettings = Pick<ServeSettings, 'auth' | 'host' | 'hosts'>;

export interface DoorOptions {
  /** The settings that hold now; without `auth`, everybody may see everything. */
  serve: () => DoorSettings;
  clock: Clock;
  /** Called for each wrong name or password, with how many there were lately. */
  refused: (lately: number) => void;
}

/** Delays of wrong passwords of one client and user name: each twice as long as the one before, for a minute. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;
const FORGET_MS = 60_000;
/** Fewer than the pages that may be in progress at once, so that guesses keep no one from the page. */
const MAX_WAITING = 8;
const MAX_COUNTED = 1_000;

/** Decides who may see the pages. The right password neither waits nor is refused, whatever else is sent. */
export function createDoor({ serve, clock, refused }: DoorOptions): Door {
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

  async function refuseWrong(sender: string): Promise<Admission> {
    refused(countWrong(''));
    const lately = countWrong(sender);
    if (waiting >= MAX_WAITING) return 'busy';
    waiting += 1;
    await clock.sleep(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (lately - 1))).finally(() => (waiting -= 1));
    return 'wrong';
  }

  return async (headers, client) => {
    const { auth, host, hosts } = serve();
    if (auth === undefined) return isOurs(headers.get('host') ?? '', [...hosts, host]) ? 'in' : 'elsewhere';
    const header = headers.get('authorization');
    if (header === null) return 'unnamed';
    if (isAuthorized(auth, header)) return 'in';
    const [user = ''] = credentialsIn(header).toString().split(':', 1);
    return refuseWrong(`${client} ${user.slice(0, 64)}`);
  };
}

/** Endings of names that nobody can register. */
const PRIVATE = /\.(?:localhost|local|internal|home\.arpa|svc|test)$/;

/**
 * False for a name that whoever owns it may make lead here (DNS rebinding): his own page would then read this one in a
 * reader's browser. Addresses, names without a dot and those for private use are nobody's. Only browsers always say
 * where they believe to be.
 */
function isOurs(host: string, hosts: readonly string[]): boolean {
  const name = host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  if (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0 || !name.includes('.')) return true;
  return PRIVATE.test(name) || hosts.some((one) => one.toLowerCase() === name);
}

/** Who may see the pages. */
type Access = NonNullable<ServeSettings['auth']>;

/** Makes a browser ask for a name and a password. */
export const CHALLENGE = 'Basic realm="content-sync", charset="UTF-8"';

/** Name and password as sent (RFC 7617); empty if the header is another one. */
function credentialsIn(authorization: string): Buffer {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  return Buffer.from(encoded ?? '', 'base64');
}

/** True if the header proves the access. Takes the same time however much of it is right. */
function isAuthorized(access: Access, authorization: string): boolean {
  return timingSafeEqual(
    digest(credentialsIn(authorization)),
    digest(Buffer.from(`${access.user}:${access.password}`)),
  );
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** Counts and logs wrong names and passwords: the 1st, 2nd, 4th, 8th and so on, however many guesses there are. */
export function refusalNote(metrics: Pick<Metrics, 'pageRefused'>, log: Logger): (lately: number) => void {
  return (lately) => {
    metrics.pageRefused();
    if (Number.isInteger(Math.log2(lately))) log.warn({ lately }, 'a wrong name or password was sent for the page');
  };
}
