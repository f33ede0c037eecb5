import { AsyncLocalStorage } from 'node:async_hooks';

/** The run, and the resource in it, that some work is done for. */
export interface RunScope {
  run_id: string;
  resource?: string;
}

const scopes = new AsyncLocalStorage<RunScope>();

/** Does `work` as part of a run: every line that is logged meanwhile, by whatever is called, names it. */
export function withinRun<T>(scope: RunScope, work: () => T): T {
  return scopes.run(scope, work);
}

/** What the present work is done for; nothing outside of a run. */
export function runScope(): Partial<RunScope> {
  return scopes.getStore() ?? {};
}
