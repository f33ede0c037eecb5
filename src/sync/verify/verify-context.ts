import { newMeter } from '../../http/client.ts';
import type { ResourceShape } from '../../model/table.ts';
import type { Forgotten } from '../../state/forgotten.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';
import { resourceContext, type ResourceContext, type SourceContext } from '../resource-context.ts';
import { newProgress, type RunContext } from '../run-progress.ts';
import type { Findings } from './certificate.ts';

/** Context of every step of verifying one resource. */
export interface VerifyContext extends RunContext {
  shape: ResourceShape;
  findings: Findings;
  /** Epoch milliseconds by the service's clock: whatever changed there before should be in the copy. */
  copiedUntil: number;
}

/** The context of a walk that writes nothing: without a lease, so that it disturbs nobody who has it. */
export function readingContext(source: SourceContext, reading: Reading, signal: AbortSignal): RunContext {
  return runContextOf(resourceContext(source, notOwned(reading), { meter: newMeter(), signal }));
}

const nothing = (): void => undefined;

/** For walks whose pages become no rows. */
export function runContextOf(context: ResourceContext): RunContext {
  const { resource } = context.owned;
  return {
    ...context,
    run: { run_id: context.runId, resource, command: 'verify', mode: 'full' },
    progress: newProgress('full', [], context.meter),
    watcher: { started: nothing, page: nothing, ended: nothing },
  };
}

interface Reading {
  shape: ResourceShape;
  forgotten: Forgotten;
}

/** A resource that may be read and not written. */
function notOwned({ shape, forgotten }: Reading): OwnedResource {
  const refuse = (): never => {
    throw new Error(`${shape.resource} is only read here`);
  };
  return {
    resource: shape.resource,
    shape,
    forgotten,
    rereadForgotten: () => Promise.resolve(),
    years: null,
    openRejects: 0,
    watches: new Set(),
    besides: [],
    lease: refuse,
    recover: () => Promise.resolve(false),
    reacquire: () => Promise.resolve(),
    release: () => Promise.resolve(),
    takeTurn: (work) => work(),
  };
}
