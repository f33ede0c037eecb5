import { newMeter } from '../../http/client.ts';
import type { ResourceShape } from '../../model/table.ts';
import type { Forgotten } from '../../state/forgotten.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';
import { resourceContext, type ResourceContext, type SourceContext } from '../resource-context.ts';
import { newProgress, type RunContext } from '../run-progress.ts';
import type { Findings } from './report.ts';

export interface VerifyContext extends RunContext {
  shape: ResourceShape;
  findings: Findings;
  /** Epoch milliseconds of the service's clock: changes before must be in the copy. */
  copiedUntil: number;
}

const doNothing = (): void => undefined;

/** The context of a scan whose pages are not written. */
export function toRunContext(context: ResourceContext): RunContext {
  const { resource } = context.owned;
  return {
    ...context,
    run: { run_id: context.runId, resource, command: 'verify', mode: 'full' },
    progress: newProgress('full', [], context.meter),
    watcher: { started: doNothing, page: doNothing, ended: doNothing },
  };
}

/** The context of a scan without a lease, so that it disturbs no process that writes. */
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
    fixedColumns: [],
    rereadForgotten: () => Promise.resolve(),
    lease: refuse,
    recover: () => Promise.resolve(false),
    reacquire: () => Promise.resolve(),
    release: () => Promise.resolve(),
    takeTurn: (work) => work(),
  };
  return toRunContext(resourceContext(source, owned, { meter: newMeter(), signal }));
}
