import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { Clock } from '../model/clock.ts';
import type { ServeSettings } from '../settings/settings.ts';

/**
 * `in`: may see everything. `unnamed`: sent no name and password, though there are some. `wrong`: sent others. `busy`:
 * not checked, because too many others were wrong just now. `elsewhere`: asked for a host that is not this one.
 */
export type Admission = 'in' | 'unnamed' | 'wrong' | 'busy' | 'elsewhere';

export interface DoorOptions {
  /** Null if everybody may see everything. */
  access: Access | null;
  /** Names by which browsers may know the page, besides those that nobody outside can make lead here. */
  hosts: readonly string[];
  clock: Clock;
  /** Called for each wrong name or password, with how many there were lately. */
  refused: (lately: number) => void;
}

/** Delays of wrong passwords: each twice as long as the one before, until nobody has been wrong for a while. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;
const FORGET_MS = 60_000;
/** Fewer than the pages that may be in work at once, so that guesses keep nobody from his page. */
const MOST_WAITING = 8;

/** Decides who may see the pages. Right passwords never wait. */
export function createDoor({ access, hosts, clock, refused }: DoorOptions): (headers: Headers) => Promise<Admission> {
  let lately = 0;
  let lastAt = -Infinity;
  let waiting = 0;

  async function refuseWrong(): Promise<Admission> {
    const now = clock.monotonic();
    lately = now - lastAt > FORGET_MS ? 1 : lately + 1;
    lastAt = now;
    refused(lately);
    waiting += 1;
    await clock.sleep(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (lately - 1))).finally(() => (waiting -= 1));
    return 'wrong';
  }

  return async (headers) => {
    if (access === null) return isOurs(headers.get('host') ?? '', hosts) ? 'in' : 'elsewhere';
    const given = headers.get('authorization');
    if (given === null) return 'unnamed';
    // Unread, so that guesses that are sent all at once learn nothing.
    if (waiting >= MOST_WAITING) return 'busy';
    return isAuthorized(access, given) ? 'in' : refuseWrong();
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

/** True if the header proves the access (RFC 7617). Takes the same time however much of it is right. */
export function isAuthorized(access: Access, authorization: string | undefined): boolean {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization ?? '') ?? [];
  const given = Buffer.from(encoded ?? '', 'base64');
  return timingSafeEqual(digest(given), digest(Buffer.from(`${access.user}:${access.password}`)));
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
