// The context in which `verify` reads: scans and reports run as in a sync, but nothing can be written, and no lease is taken,
// so that no process that writes is disturbed.
import type { Forgotten } from '../../database/state/forgotten.ts';
import type { OwnedResource } from '../../database/state/owned-resource.ts';
import { newMeter } from '../../http/client.ts';
import type { ResourceShape } from '../../model/table.ts';
import { createResourceContext, type SourceContext } from '../resource-context.ts';
import { newProgress, type RunContext } from '../run-progress.ts';
import type { Findings } from './report.ts';

export interface VerifyContext extends RunContext {
  shape: ResourceShape;
  findings: Findings;
  /** Epoch milliseconds of the service's clock: changes before must be in the copy. */
  copiedUntil: number;
}

const doNothing = (): void => undefined;

/** Creates the context of a resource whose methods that write throw. */
export function readingContext(
  source: SourceContext,
  { shape, forgotten }: { shape: ResourceShape; forgotten: Forgotten },
  signal: AbortSignal,
): RunContext {
  const refuse = (): never => {
    throw new Error(`${shape.resource} is read-only here`);
  };
  const owned: OwnedResource = {
    resource: shape.resource,
    shape,
    forgotten,
    years: null,
    openRejects: 0,
    watches: new Set(),
    heldViews: [],
    sourceViews: { refreshed: Promise.resolve(), upToDate: null },
    fixedColumns: [],
    rereadForgotten: () => Promise.resolve(),
    lease: refuse,
    commit: refuse,
    recover: () => Promise.resolve(false),
    reacquire: () => Promise.resolve(),
    release: () => Promise.resolve(),
    runAlone: (work) => work(),
  };
  const meter = newMeter();
  return {
    ...createResourceContext(source, owned, { meter, signal }),
    run: { run_id: source.runId, resource: shape.resource, command: 'verify', mode: 'full' },
    progress: newProgress('full', [], meter),
    watcher: { started: doNothing, page: doNothing, ended: doNothing },
  };
}
