import { systemClock } from '../../src/observe/system-clock.ts';
import { createHoldings, type Holding } from '../../src/state/owned-resource.ts';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { Warehouse } from '../../src/warehouse/warehouse.ts';
import { profileWith, recordsOf } from './page-records.ts';

/** Loads pages into the resource that is held; no body is kept. */
export function contentLoader(warehouse: Warehouse, holding: Holding): Promise<PageLoader> {
  return openPageLoader({
    warehouse,
    holding,
    resources: ['content'],
    profile: profileWith({ updated: null, history: 'none' }),
    reading: { believesOlder: true },
    runId: 'run',
    clock: systemClock,
    signal: new AbortController().signal,
  });
}

/** Loads one page into `content` and is its owner only meanwhile. */
export async function loadOnce(warehouse: Warehouse, texts: readonly string[]): Promise<void> {
  const holdings = createHoldings(warehouse, systemClock);
  const holding = await holdings.take('content');
  try {
    const loader = await contentLoader(warehouse, holding);
    await loader.load({ records: recordsOf(texts), requestedAt: Date.now() }, () => []);
  } finally {
    await holdings.giveBack('content');
  }
}
