import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources, type HeldView, type OwnedResource } from '../../src/database/state/owned-resource.ts';
import { openPageLoader, type PageLoader, type PageOutcome } from '../../src/load/page-loader.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { profilesFor, profileWith, recordsOf } from './page-records.ts';

/** Loads pages into the resource that is held; no body is kept. */
function contentLoader(warehouse: Warehouse, owned: OwnedResource): Promise<PageLoader> {
  return openPageLoader(
    {
      warehouse,
      owned,
      ...profilesFor(profileWith({ updated: null, history: 'none' })),
      runId: 'run',
      clock: systemClock,
      signal: new AbortController().signal,
    },
    { acceptsOlder: true },
  );
}

/** Loads one page into `content` and is its owner only meanwhile; returns the views that could not widen. */
export async function loadOnce(
  warehouse: Warehouse,
  texts: readonly string[],
): Promise<{ outcome: PageOutcome; heldViews: readonly HeldView[] }> {
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  try {
    const loader = await contentLoader(warehouse, owned);
    const outcome = await loader.load({ records: recordsOf(texts), requestedAt: Date.now() }, () => []);
    return { outcome, heldViews: owned.heldViews };
  } finally {
    await owned.release();
  }
}
