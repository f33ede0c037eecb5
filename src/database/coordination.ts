/** A budget as it stands for all processes. */
export interface StoredBudget {
  /** Null if nothing was stored yet. */
  state: string | null;
  /** Grows with every change; 0 if nothing was stored yet. */
  version: number;
  /** Epoch milliseconds by the database's clock, which is the same for all. */
  now: number;
}

/** A token as it stands for all processes. */
interface StoredToken {
  /** Encrypted by those who may use it; null if nothing was stored yet. */
  sealed: string | null;
  /** Grows with every token; 0 if nothing was stored yet. */
  version: number;
  /** Milliseconds that it still holds, by the database's clock; 0 or less for one that has run out. */
  expiresIn: number;
}

/** The tokens that several processes use together, and that outlive them. */
export interface TokenStore {
  /**
   * If the token is still that of `version` and nobody else is at it, `owner` is the one who asks the service for the
   * next, for so many milliseconds (`isMine`). Returns what is stored either way.
   */
  claimToken(
    name: string,
    version: number,
    claim: { owner: string; forMs: number },
  ): Promise<StoredToken & { isMine: boolean }>;
  /** Stores the next token unless somebody else has since `version`, and ends the claim; returns false then. */
  swapToken(name: string, version: number, token: { sealed: string; expiresIn: number }): Promise<boolean>;
  /** Ends the owner's claim without a token. */
  freeToken(name: string, owner: string): Promise<void>;
}

/** A request to the process that leads a source, as commands on other machines leave it; `request` is JSON. */
export interface StoredControl {
  id: string;
  /** The source's own part of the database. */
  source: string;
  request: string;
  /** Who asks; null if that is not known. */
  by: string | null;
}

/** What has come of it so far; texts are JSON. */
export interface StoredControlAnswer {
  answer: string | null;
  report: string | null;
  isEnded: boolean;
  /** True if the process that does it was heard of lately. */
  isHeard: boolean;
}

/** What processes are told to do by way of the database. */
export interface ControlPost {
  /** True if a process leads the source just now. */
  isLed(source: string): Promise<boolean>;
  putControl(control: StoredControl): Promise<void>;
  /** Those of the last minute for these sources, whatever has come of them, oldest first. */
  recentControls(sources: readonly string[]): Promise<StoredControl[]>;
  /** Returns false if another process does it. */
  takeControl(id: string, owner: string): Promise<boolean>;
  /** Notes that it is heard of; what is null stays as it is. */
  tellControl(id: string, told: Omit<StoredControlAnswer, 'isHeard'>): Promise<void>;
  /** Null if it is not known any more. */
  readControl(id: string): Promise<StoredControlAnswer | null>;
}

/**
 * What all processes on one Postgres share, over all its sources: SQLite has none, because one process does the
 * work. All methods throw `SyncError`.
 */
export interface Coordination extends ControlPost {
  readBudget(name: string): Promise<StoredBudget>;
  /** Stores `state` unless somebody else has since `version`, in one statement; returns what is stored now. */
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
