import { availableParallelism } from 'node:os';

/** How many threads for pages this process may have at once, all warehouses together. */
export class ThreadBudget {
  #most: number;
  #taken = 0;

  /** Without a number: one for each core that is not the main thread's own; on a single core none. */
  constructor(most: number = availableParallelism() - 1) {
    this.#most = most;
  }

  /** 0 if all is done in the main thread. */
  get most(): number {
    return this.#most;
  }

  /** Threads that run already go on until they end. */
  set most(most: number) {
    this.#most = most;
  }

  /** False if there are as many as there may be. */
  take(): boolean {
    if (this.#taken >= this.#most) return false;
    this.#taken += 1;
    return true;
  }

  giveBack(): void {
    this.#taken -= 1;
  }
}

/** The one of this process. */
export const pageThreads = new ThreadBudget();
