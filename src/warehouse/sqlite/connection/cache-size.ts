/** Bytes of pages that a connection keeps in memory: what one transaction of a page of records touches. */
const CACHE_KIB = 8_000;

/** The value of `PRAGMA cache_size`, which is KiB if it is negative. */
export function cacheSize(): number {
  return -CACHE_KIB;
}
