// Time zones: converts local times of a service to epoch milliseconds.

/** A time zone. Local times are epoch milliseconds, as if they were UTC. */
export interface TimeZone {
  /**
   * Converts a local time to epoch milliseconds. A local time that occurs twice or not at all, at a change of the clocks,
   * is converted to the earlier of two possible times, so that a request for all changes since then misses none.
   */
  earliest(local: number): number;
  /** Difference to the later possible time; 0 for a local time that occurs once. */
  spread(local: number): number;
  /** Converts epoch milliseconds to local time. */
  toLocal(time: number): number;
}

const DAY_MS = 86_400_000;
/** Cached offsets per zone, 27 years. */
const MAX_CACHED_DAYS = 10_000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

const zonesByName = new Map<string, TimeZone>();

/** True for an IANA name (`Europe/Zurich`) and for a fixed offset (`+02:00`). */
export function isTimeZone(name: string): boolean {
  try {
    offsetFormat(name);
    return true;
  } catch {
    return false;
  }
}

/** Used instead of a zone for local times without a known zone. They stay texts. */
export const LOCAL = 'local';

/** Zones of local times, or `LOCAL`, by the dotted path of their field. */
export type ZonesByPath = Readonly<Record<string, string>>;

/** Returns the setting of `times` for a field, or null. `hasOwn`, because a field may be called `__proto__`. */
export function zoneNameAt(times: ZonesByPath, path: string): string | null {
  return Object.hasOwn(times, path) ? (times[path] ?? null) : null;
}

/** Returns the zone of a field; null if `times` names none. */
export function zoneAt(times: ZonesByPath, path: string | null): TimeZone | null {
  const name = path === null ? null : zoneNameAt(times, path);
  return name === null || name === LOCAL ? null : timeZone(name);
}

/** Cached by name. Throws a `RangeError` if `isTimeZone` is false. */
export function timeZone(name: string): TimeZone {
  const zone = zonesByName.get(name) ?? new NamedZone(name);
  zonesByName.set(name, zone);
  return zone;
}

class NamedZone implements TimeZone {
  readonly #format: Intl.DateTimeFormat;
  /** Offset in milliseconds by local day; null for a day near a change of the clocks. */
  readonly #days = new Map<number, number | null>();

  constructor(name: string) {
    this.#format = offsetFormat(name);
  }

  earliest(local: number): number {
    const offset = this.#offsetOf(Math.floor(local / DAY_MS));
    return offset === null ? this.#possibleTimes(local)[0] : local - offset;
  }

  spread(local: number): number {
    if (this.#offsetOf(Math.floor(local / DAY_MS)) !== null) return 0;
    const [earliest, latest] = this.#possibleTimes(local);
    return latest - earliest;
  }

  toLocal(time: number): number {
    return time + this.#offsetAt(time);
  }

  #offsetOf(day: number): number | null {
    const remembered = this.#days.get(day);
    if (remembered !== undefined) return remembered;
    // Offsets are less than a day, so these times are before and after the whole local day.
    const before = this.#offsetAt((day - 1) * DAY_MS);
    const offset = before === this.#offsetAt((day + 2) * DAY_MS) ? before : null;
    if (this.#days.size >= MAX_CACHED_DAYS) this.#days.clear();
    this.#days.set(day, offset);
    return offset;
  }

  /** The earliest and the latest possible time of a local time near a change of the clocks. */
  #possibleTimes(local: number): [earliest: number, latest: number] {
    const before = local - this.#offsetAt(local - DAY_MS);
    const after = local - this.#offsetAt(local + DAY_MS);
    const isBefore = this.toLocal(before) === local;
    const isAfter = this.toLocal(after) === local;
    if (isBefore !== isAfter) return isBefore ? [before, before] : [after, after];
    return [Math.min(before, after), Math.max(before, after)];
  }

  /** Milliseconds to add to a UTC time. This takes some microseconds, so offsets are cached by day. */
  #offsetAt(time: number): number {
    const [, sign, hours = 0, minutes = 0, seconds = 0] = OFFSET.exec(this.#format.format(time)) ?? [];
    const offset = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
    return sign === '-' ? -offset : offset;
  }
}

function offsetFormat(name: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
}
