import type { RunStatus } from '../../model/vocabulary.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';

/** How one attempt at a walk ended; without a report if it threw. */
export type Attempt =
  | { status: RunStatus; report: RunReport; error: null }
  | { status: 'failed'; report: null; error: unknown };

interface WalkRequest {
  command: SyncCommand;
  /** A person asked: it waits for nothing, and whatever the walk comes to is the answer. */
  isNow: boolean;
  resolve: (report: RunReport) => void;
  reject: (reason: unknown) => void;
}

/** Those who asked for a walk of one resource. */
export class WalkRequests {
  #waiting: WalkRequest[] = [];
  /** Served by the walk under way. */
  #served: WalkRequest[] = [];

  get areWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** True if a person asked. */
  get areNow(): boolean {
    return this.#waiting.some(({ isNow }) => isNow);
  }

  /** What is asked for: a whole walk serves all. Null if nothing is. */
  get command(): SyncCommand | null {
    const isWhole = this.#waiting.some(({ command }) => command === 'backfill');
    return isWhole ? 'backfill' : (this.#waiting[0]?.command ?? null);
  }

  /** Resolves once a walk that began from now on has come to its end, however many attempts that takes. */
  add(command: SyncCommand): Promise<RunReport> {
    return this.#put(this.#waiting, command, false);
  }

  /** Settles as the next attempt does. */
  addNow(command: SyncCommand): Promise<RunReport> {
    return this.#put(this.#waiting, command, true);
  }

  /** Settles as the attempt under way does. */
  join(command: SyncCommand): Promise<RunReport> {
    return this.#put(this.#served, command, true);
  }

  /** Called when a walk begins; returns true if a person has asked for it. */
  begin(command: SyncCommand): boolean {
    const isServed = (request: WalkRequest): boolean => command === 'backfill' || request.command === 'sync';
    this.#served = this.#waiting.filter(isServed);
    this.#waiting = this.#waiting.filter((request) => !isServed(request));
    return this.#served.some(({ isNow }) => isNow);
  }

  /** Called when it has ended; those who asked for an end that it did not come to wait on, except for persons. */
  end({ report, error }: Attempt, isDone: boolean): void {
    const again: WalkRequest[] = [];
    for (const request of this.#served.splice(0)) {
      if (!isDone && !request.isNow) again.push(request);
      else if (report === null) request.reject(error);
      else request.resolve(report);
    }
    this.#waiting.unshift(...again);
  }

  /** Ends the waiting of all, or only of the persons who asked. */
  refuse(reason: unknown, whom: 'all' | 'now'): void {
    const isRefused = ({ isNow }: WalkRequest): boolean => whom === 'all' || isNow;
    for (const { reject } of this.#waiting.filter(isRefused)) reject(reason);
    this.#waiting = this.#waiting.filter((request) => !isRefused(request));
  }

  #put(requests: WalkRequest[], command: SyncCommand, isNow: boolean): Promise<RunReport> {
    const { promise, resolve, reject } = Promise.withResolvers<RunReport>();
    requests.push({ command, isNow, resolve, reject });
    return promise;
  }
}
