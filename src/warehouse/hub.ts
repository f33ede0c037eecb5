/** A budget as it stands for all processes. */
export interface StoredBudget {
  /** Null where nothing was stored yet. */
  state: string | null;
  /** Grows with every change; 0 where nothing was stored yet. */
  version: number;
  /** Epoch milliseconds by the database's clock, which is the same for all. */
  now: number;
}

/**
 * What all processes on one Postgres share, over all its sources: there is none for SQLite, where one process does the
 * work. All methods throw `SyncError`.
 */
export interface Hub {
  readBudget(name: string): Promise<StoredBudget>;
  /** Stores `state` where nobody else has since `version`, in one statement; and says what stands there now. */
  swapBudget(name: string, version: number, state: string): Promise<StoredBudget & { isStored: boolean }>;
  /**
   * Takes or keeps the lead of those sources that nobody else leads, for so many milliseconds; returns the ones that
   * are led now. One statement, however many sources there are.
   */
  lead(sources: readonly string[], owner: string, forMs: number): Promise<string[]>;
  /** Gives back the lead of all sources. */
  resign(owner: string): Promise<void>;
  close(): Promise<void>;
}
