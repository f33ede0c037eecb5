import { readTables } from '../../src/database/state/catalog.ts';
import { readCheckpoint } from '../../src/database/state/checkpoints.ts';
import { newMeter } from '../../src/http/client.ts';
import { openPageLoader } from '../../src/load/page-loader.ts';
import type { Clock } from '../../src/model/clock.ts';
import { readItem } from '../../src/pagination/read-item.ts';
import type { App } from '../../src/server/app.ts';
import {
  type DeletedRecord,
  type EvidenceKind,
  softDelete,
  type SoftDeleteOutcome,
} from '../../src/sync/deletes/soft-delete.ts';
import { createResourceContext, type ResourceContext } from '../../src/sync/resource-context.ts';

const RESOURCE = 'content';

interface Events {
  /** What a webhook about a record leads to: it is read again, then loaded or soft-deleted. */
  told(id: string): Promise<'there' | 'gone'>;
  /** Soft-deletes without asking for the records themselves. */
  softDelete(gone: readonly DeletedRecord[], kind?: EvidenceKind): Promise<SoftDeleteOutcome>;
  context: ResourceContext;
  close(): Promise<void>;
}

/** Events of `content` as a process gets them that holds the resource. */
export async function eventsFor(
  app: App,
  clock: Clock,
  signal: AbortSignal = new AbortController().signal,
): Promise<Events> {
  const { warehouse, client, listing, ownedResources, source } = app;
  const owned = await ownedResources.acquire(RESOURCE);
  await owned.runAlone(async () => {
    owned.shape ??= await readTables(warehouse, RESOURCE);
  });
  const stored = await readCheckpoint(warehouse.own, RESOURCE);
  const credential = stored?.full_credential ?? stored?.walk_credential ?? 'none';
  const { profile, deletes } = source;
  const parts = { warehouse, ownedResources, client, listing, clock, credential, deletes, profile, runId: 'serve' };
  const context = createResourceContext({ ...parts, scrub: (text) => text, proofs: new Map() }, owned, {
    meter: newMeter(),
    signal,
  });
  return {
    context,
    softDelete: (gone, kind = 'only_404') => softDelete(context, gone, { kind, reason: 'event' }),
    told: async (id) => {
      const answer = await readItem(context, id, 'refetch');
      if (!answer.isThere) {
        const gone = [{ key: id, confirmedAt: answer.requestedAt }];
        await softDelete(context, gone, { kind: 'only_404', reason: 'event' });
        return 'gone';
      }
      const loader = await openPageLoader(context, { acceptsOlder: true });
      await loader.load({ records: [answer.record], requestedAt: answer.requestedAt }, () => []);
      return 'there';
    },
    close: () => owned.release(),
  };
}
