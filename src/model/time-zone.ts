/** The local time of a place. A local time is given as epoch milliseconds, as if it were UTC. */
export interface TimeZone {
  /**
   * The moment (epoch milliseconds) of a local time. When clocks are put back a local time occurs twice, when they are
   * put forward some do not occur at all. Returns the earlier of the two moments that it may mean, so that a request
   * for everything since then leaves nothing out.
   */
  earliest(local: number): number;
  /** By how much the other of these two moments is later; 0 for a time that occurs once. */
  spread(local: number): number;
  /** The local time of a moment. */
  toLocal(moment: number): number;
}

const DAY_MS = 86_400_000;
/** Days whose offset is remembered per zone: 27 years. */
const MOST_DAYS = 10_000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

const known = new Map<string, TimeZone>();

/** True for an IANA name (`Europe/Zurich`) and for a fixed offset (`+02:00`). */
export function isTimeZone(name: string): boolean {
  try {
    offsetFormat(name);
    return true;
  } catch {
    return false;
  }
}

/** In place of a zone: a wall-clock time whose zone nobody tells. It is no moment, and stays a text. */
export const LOCAL = 'local';

/** Zones of local times, or `LOCAL`, by the dotted path of their field. */
export type ZonesByPath = Readonly<Record<string, string>>;

/** What `times` says of the field at a dotted path; null if nothing. A service may call a field `__proto__`. */
export function zoneNameAt(times: ZonesByPath, path: string): string | null {
  return Object.hasOwn(times, path) ? (times[path] ?? null) : null;
}

/** The zone of the field at a dotted path; null if `times` names none. */
export function zoneAt(times: ZonesByPath, path: string | null): TimeZone | null {
  const name = path === null ? null : zoneNameAt(times, path);
  return name === null || name === LOCAL ? null : timeZone(name);
}

/** Made once per name. Throws a `RangeError` if `isTimeZone` is false. */
export function timeZone(name: string): TimeZone {
  const zone = known.get(name) ?? new NamedZone(name);
  known.set(name, zone);
  return zone;
}

class NamedZone implements TimeZone {
  readonly #format: Intl.DateTimeFormat;
  /** By local day: the offset (milliseconds) of its times; null for a day on or beside a change of the clocks. */
  readonly #days = new Map<number, number | null>();

  constructor(name: string) {
    this.#format = offsetFormat(name);
  }

  earliest(local: number): number {
    const offset = this.#offsetOf(Math.floor(local / DAY_MS));
    return offset === null ? this.#changing(local)[0] : local - offset;
  }

  spread(local: number): number {
    if (this.#offsetOf(Math.floor(local / DAY_MS)) !== null) return 0;
    const [earliest, latest] = this.#changing(local);
    return latest - earliest;
  }

  toLocal(moment: number): number {
    return moment + this.#offsetAt(moment);
  }

  #offsetOf(day: number): number | null {
    const remembered = this.#days.get(day);
    if (remembered !== undefined) return remembered;
    // No place is a day away from UTC, so these moments lie before and after all moments of the local day.
    const before = this.#offsetAt((day - 1) * DAY_MS);
    const offset = before === this.#offsetAt((day + 2) * DAY_MS) ? before : null;
    if (this.#days.size >= MOST_DAYS) this.#days.clear();
    this.#days.set(day, offset);
    return offset;
  }

  /** The earliest and the latest moment that the local time may mean, near a change of the clocks. */
  #changing(local: number): [earliest: number, latest: number] {
    const before = local - this.#offsetAt(local - DAY_MS);
    const after = local - this.#offsetAt(local + DAY_MS);
    const isBefore = this.toLocal(before) === local;
    const isAfter = this.toLocal(after) === local;
    if (isBefore !== isAfter) return isBefore ? [before, before] : [after, after];
    return [Math.min(before, after), Math.max(before, after)];
  }

  /** Milliseconds to add to a moment. Takes some microseconds, which is why offsets are kept by day. */
  #offsetAt(moment: number): number {
    const [, sign, hours = 0, minutes = 0, seconds = 0] = OFFSET.exec(this.#format.format(moment)) ?? [];
    const offset = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
    return sign === '-' ? -offset : offset;
  }
}

function offsetFormat(name: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
}
