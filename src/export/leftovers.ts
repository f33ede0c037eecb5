import { filesOf, type Manifest } from './manifest.ts';
import { LOCK, NEXT_MANIFEST } from './places/local-folder.ts';
import { MANIFEST, type Place } from './places/place.ts';

const PART = /^[^/]+\/(?:month=[^/]+\/)?part-\d{8}T\d{6}Z-[0-9a-f]{8}-\d{5}\.(?:parquet|csv|ndjson)$/;

/** True of a path that only an export gives. */
export function isOurs(path: string): boolean {
  return PART.test(path) || [LOCK, NEXT_MANIFEST, MANIFEST].includes(path);
}

const DAY_MS = 86_400_000;

/**
 * What the manifest before listed, and what exports left that were stopped: at once where nobody else can be writing,
 * elsewhere after a day.
 */
export async function leftovers(
  place: Place,
  listed: ReadonlySet<string>,
  before: Manifest | null,
  now: number,
): Promise<string[]> {
  const old = new Set(filesOf(before));
  const files = await place.list();
  return files
    .filter(({ path }) => PART.test(path) && !listed.has(path))
    .filter(({ path, changedAt }) => place.isLocked || old.has(path) || changedAt < now - DAY_MS)
    .map(({ path }) => path);
}
