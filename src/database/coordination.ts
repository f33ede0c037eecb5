// Interfaces of the state that processes share: budgets of rate limits, tokens, leadership.

/** A rate-limit budget that several processes share. */
export interface StoredBudget {
  /** Null if nothing was stored yet. */
  state: string | null;
  /** Grows with every change; 0 if nothing was stored yet. */
  version: number;
  /** Epoch milliseconds of the database's clock, which all processes share. */
  now: number;
}

/** A token that several processes share. */
interface StoredToken {
  /** Encrypted; null if nothing was stored yet. */
  sealed: string | null;
  /** Grows with every token; 0 if nothing was stored yet. */
  version: number;
  /** Milliseconds until it expires, by the database's clock. */
  expiresIn: number;
}

/** The tokens that several processes share, and that outlive them. */
export interface TokenStore {
  /**
   * Reserves the request for the next token for `owner`, if the token still has this version and no other process
   * requests it (`isMine`). Returns the stored token in any case.
   */
  claimToken(
    name: string,
    version: number,
    claim: { owner: string; forMs: number },
  ): Promise<StoredToken & { isMine: boolean }>;
  /** Stores the next token and ends the reservation. Returns false if another process has stored one since `version`. */
  swapToken(name: string, version: number, token: { sealed: string; expiresIn: number }): Promise<boolean>;
  /** Ends the owner's reservation without a token. */
  freeToken(name: string, owner: string): Promise<void>;
}

/** State that all processes on one Postgres database share, over all its sources. All methods throw `SyncError`. */
export interface Coordination {
  readBudget(name: string): Promise<StoredBudget>;
  /** Stores `state` unless another process has since `version`, in one statement; returns what is stored now. */
  swapBudget(name: string, version: number, state: string): Promise<StoredBudget & { isStored: boolean }>;
  /**
   * Takes or renews the leadership of those sources that no other process leads; returns the sources that `owner` leads
   * now. One statement for any number of sources.
   */
  lead(sources: readonly string[], owner: string, forMs: number): Promise<string[]>;
  /** Gives up the leadership of all sources. */
  resign(owner: string): Promise<void>;
  close(): Promise<void>;
}
