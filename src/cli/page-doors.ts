import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { Control } from '../serve/controls/control-request.ts';
import type { ServeSettings } from '../settings/settings.ts';
import { createControlDoor, type ControlDoor } from '../web/control-door.ts';
import { createDoor } from '../web/door.ts';
import type { PagesOptions } from '../web/pages.ts';
import { refusalLog } from '../web/refusal-log.ts';

interface DoorParts {
  clock: Clock;
  log: Logger;
  metrics: Metrics;
  control: Control;
}

/** Who may see the pages and tell the process what to do, by the settings that hold now. */
export interface PageDoors extends Pick<PagesOptions, 'door' | 'controls'> {
  /** Takes settings that were read again; forms that were given out stay good unless name or password change. */
  change(serve: ServeSettings): void;
}

export function pageDoors(parts: DoorParts, serve: ServeSettings): PageDoors {
  let current = serve;
  let door = doorFor(parts, serve);
  let controls = controlsFor(parts, serve);
  return {
    door: (headers, client) => door(headers, client),
    controls: () => controls,
    change: (next) => {
      const isSame = accessText(next) === accessText(current);
      current = next;
      door = doorFor(parts, next);
      if (!isSame) controls = controlsFor(parts, next);
    },
  };
}

function accessText({ auth, host, hosts }: ServeSettings): string {
  return JSON.stringify([auth?.user, auth?.password, host, hosts]);
}

/** Who may see the pages of `serve` or `worker`; wrong passwords are counted and logged. */
export function doorFor(
  { clock, log, metrics }: Omit<DoorParts, 'control'>,
  { auth, host, hosts }: Pick<ServeSettings, 'auth' | 'host' | 'hosts'>,
): PagesOptions['door'] {
  const refused = (lately: number): void => {
    metrics.pageRefused();
    // Few lines, however many guesses: the 1st, 2nd, 4th, 8th and so on.
    if (Number.isInteger(Math.log2(lately))) log.warn({ lately }, 'a wrong name or password was sent for the page');
  };
  return createDoor({ access: auth ?? null, hosts: [...hosts, host], clock, refused });
}

/** Null without a name and a password: whoever can reach the page could tell the process what to do. */
function controlsFor({ clock, log, control }: DoorParts, { auth, host, hosts }: ServeSettings): ControlDoor | null {
  if (auth === undefined) return null;
  const refused = refusalLog(clock, (line) => log.warn(line, 'a form of the page was not obeyed'));
  return createControlDoor({ control, user: auth.user, hosts: [...hosts, host], clock, refused });
}
