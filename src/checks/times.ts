// Finds times without a zone that the profile reads in the wrong one. Example: WordPress lists `date` in its own zone
// beside `date_gmt`; read as UTC, the column `date` would be hours off.
import type { JsonValue } from '../model/json.ts';
import { LOCAL, zoneAt } from '../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../rows/columns/cells.ts';
import type { UpdatedBy } from '../rows/columns/updated-time.ts';
import { fieldAt, isObject } from '../rows/records/as-record.ts';
import { type CheckFinding, fail } from './listing-scan.ts';

const MINUTE_MS = 60_000;
/** Zones differ from UTC by whole quarters of an hour. */
const QUARTER_MS = 15 * MINUTE_MS;
/** The largest offset from UTC of any zone. */
export const MAX_UTC_OFFSET_MS = 14 * 60 * MINUTE_MS;

export const UTC_NAME = /[_.-]?(gmt|utc)$/i;

type Zones = Pick<Required<UpdatedBy>, 'times'>;

/**
 * Fields without a zone, each with the field of the same records that has the same times in UTC (`twin`), and how far the
 * two are apart (`offsets`).
 */
export function misreadTimes(records: readonly JsonValue[], { times }: Zones) {
  const names = new Set(records.flatMap((record) => (isObject(record) ? Object.keys(record) : [])));
  const twins = [...names].filter((name) => UTC_NAME.test(name));
  return [...names].flatMap((path) => {
    const twin = twins.find((name) => name !== path && name.replace(UTC_NAME, '').toLowerCase() === path.toLowerCase());
    if (twin === undefined || times[path] === LOCAL) return [];
    const gaps = records.flatMap((record) => {
      const [local, utc] = [fieldAt(record, path), fieldAt(record, twin)];
      if (typeof local !== 'string' || typeof utc !== 'string' || !isLocalTime(local)) return [];
      const [read, expected] = [parseInstant(local, zoneAt(times, path)), parseInstant(utc)];
      return read === null || expected === null || read.latestMs !== undefined ? [] : [read.epochMs - expected.epochMs];
    });
    const others = [...new Set(gaps)].filter((gap) => gap !== 0);
    const areZones = others.every((gap) => gap % QUARTER_MS === 0 && Math.abs(gap) <= MAX_UTC_OFFSET_MS);
    return others.length > 0 && areZones ? [{ path, twin, offsets: others.map(formatUtcOffset).join(' or ') }] : [];
  });
}

export function timesFindings(records: readonly JsonValue[], { times }: Zones): CheckFinding[] {
  return misreadTimes(records, { times }).map(({ path, twin, offsets }) => {
    const detail = `${path} names no zone and is read as ${times[path] ?? 'UTC'}, but stands ${offsets} from ${twin}`;
    const hint = `name the zone of the service in the profile, as \`times: { ${path}: Europe/Zurich }\`, a fixed offset such as +02:00, or \`local\``;
    return fail('times', detail, hint);
  });
}

/** `+02:00`. */
function formatUtcOffset(ms: number): string {
  const minutes = Math.abs(ms) / MINUTE_MS;
  const digits = [Math.floor(minutes / 60), minutes % 60].map((count) => String(count).padStart(2, '0'));
  return `${ms < 0 ? '-' : '+'}${digits.join(':')}`;
}
