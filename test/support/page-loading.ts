import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/database/state/owned-resource.ts';
import type { LoadContext } from '../../src/load/load-context.ts';
import { openPageLoader, type PageOutcome } from '../../src/load/page-loader.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { profilesFor, profileWith, recordsOf, type ProfileChoice } from './page-records.ts';

interface Loading {
  context: LoadContext;
  /** Loads the records, each by its source text, as one page; `requestedAt` in epoch milliseconds. */
  load: (texts: readonly string[], requestedAt?: number) => Promise<PageOutcome>;
}

/** What a test may say about a loading; the resource is `content` unless named. */
interface LoadingOptions {
  resource?: string;
  resources?: readonly string[];
  mode?: 'full' | 'incremental';
  profile?: ProfileChoice;
  signal?: AbortSignal;
}

/** Loads pages into a warehouse as a run does, without a service. */
export async function loading(warehouse: Warehouse, options: LoadingOptions = {}): Promise<Loading> {
  const resource = options.resource ?? 'content';
  const owned = await ownResources(warehouse, systemClock).acquire(resource);
  onTestFinished(() => owned.release());
  const context: LoadContext = {
    warehouse,
    owned,
    ...profilesFor(profileWith(options.profile), options.resources ?? [resource]),
    runId: 'run',
    clock: systemClock,
    signal: options.signal ?? new AbortController().signal,
  };
  const loader = await openPageLoader(context, { acceptsOlder: options.mode !== 'incremental' });
  return {
    context,
    load: (texts, requestedAt = Date.now()) => loader.load({ records: recordsOf(texts), requestedAt }, () => []),
  };
}
