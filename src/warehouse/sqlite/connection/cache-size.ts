import { memoryUse, type MemoryUse } from '../../../model/memory-use.ts';

/** Bytes of pages that a connection keeps in memory: what one transaction of a page of records touches. */
const CACHE_KIB: Readonly<Record<MemoryUse, number>> = { normal: 8_000, low: 2_000 };

/** The value of `PRAGMA cache_size`, which is KiB if it is negative. */
export function cacheSize(): number {
  return -CACHE_KIB[memoryUse()];
}
