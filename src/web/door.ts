import { isIP } from 'node:net';
import type { Clock } from '../model/clock.ts';
import { isAuthorized, type Access } from './basic-auth.ts';
import type { PageRequest } from './receiver/calls.ts';

/**
 * `in`: may see everything. `unnamed`: says no name and password, where there are any. `wrong`: says others. `busy`: is
 * not listened to, because too many others were wrong just now. `elsewhere`: asks for a host that is not this one.
 */
export type Admission = 'in' | 'unnamed' | 'wrong' | 'busy' | 'elsewhere';

export interface DoorOptions {
  /** Null where everybody may see everything. */
  access: Access | null;
  /** Names by which browsers may know the page, besides those that nobody outside can make lead here. */
  hosts: readonly string[];
  clock: Clock;
  /** Told of each wrong name or password, and how many there were lately. */
  refused: (lately: number) => void;
}

/** Waits of those who are wrong: each twice as long as the one before, until nobody has been wrong for a while. */
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;
const FORGET_MS = 60_000;
/** Fewer than the pages that may be in work at once, so that guesses keep nobody from his page. */
const MOST_WAITING = 8;

/** Says who may see the pages. Whoever is right is never kept waiting. */
export function createDoor({
  access,
  hosts,
  clock,
  refused,
}: DoorOptions): (request: PageRequest) => Promise<Admission> {
  let lately = 0;
  let lastAt = -Infinity;
  let waiting = 0;

  async function turnAway(): Promise<Admission> {
    const now = clock.monotonic();
    lately = now - lastAt > FORGET_MS ? 1 : lately + 1;
    lastAt = now;
    refused(lately);
    waiting += 1;
    await clock.sleep(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (lately - 1))).finally(() => (waiting -= 1));
    return 'wrong';
  }

  return async ({ headers: { authorization, host } }) => {
    if (access === null) return isOurs(textOf(host) ?? '', hosts) ? 'in' : 'elsewhere';
    const told = textOf(authorization);
    if (told === undefined) return 'unnamed';
    // Unread, so that guesses that are sent all at once tell nothing.
    if (waiting >= MOST_WAITING) return 'busy';
    return isAuthorized(access, told) ? 'in' : turnAway();
  };
}

function textOf(value: PageRequest['headers'][string]): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Endings of names that nobody can register. */
const PRIVATE = /\.(?:localhost|local|internal|home\.arpa|svc|test)$/;

/**
 * False for a name that whoever owns it may make lead here (DNS rebinding): his own page would then read this one in a
 * visitor's browser. Addresses, names without a dot and those for private use are nobody's. Only browsers always say
 * where they believe to be.
 */
function isOurs(host: string, hosts: readonly string[]): boolean {
  const name = host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  if (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0 || !name.includes('.')) return true;
  return PRIVATE.test(name) || hosts.some((one) => one.toLowerCase() === name);
}
