/** A budget as it stands for all processes. */
export interface StoredBudget {
  /** Null where nothing was stored yet. */
  state: string | null;
  /** Grows with every change; 0 where nothing was stored yet. */
  version: number;
  /** Epoch milliseconds by the database's clock, which is the same for all. */
  now: number;
}

/** An access token as it stands for all processes. */
export interface StoredToken {
  /** Encrypted by those who may use it; null where nothing was stored yet. */
  sealed: string | null;
  /** Grows with every token; 0 where nothing was stored yet. */
  version: number;
  /** Milliseconds that it still holds, by the database's clock; 0 or less for one that has run out. */
  expiresIn: number;
}

/**
 * What all processes on one Postgres share, over all its sources: there is none for SQLite, where one process does the
 * work. All methods throw `SyncError`.
 */
export interface Coordination {
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
  /**
   * Where the token is still that of `version` and nobody else is at it, `owner` is the one who asks the service for the
   * next, for so many milliseconds (`isMine`). Says what stands there either way.
   */
  claimToken(
    name: string,
    version: number,
    claim: { owner: string; forMs: number },
  ): Promise<StoredToken & { isMine: boolean }>;
  /** Stores the next token where nobody else has since `version`, and ends the claim; false where somebody has. */
  swapToken(name: string, version: number, token: { sealed: string; expiresIn: number }): Promise<boolean>;
  /** Ends the owner's claim without a token. */
  freeToken(name: string, owner: string): Promise<void>;
  close(): Promise<void>;
}
