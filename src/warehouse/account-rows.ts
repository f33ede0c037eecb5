/** The limits of a service that are known. */
export interface LimitRow {
  name: string;
  state: string;
  updated_at: string;
}

/** A token that takes the place of one of the settings. */
export interface TokenRow {
  name: string;
  /** Grows with every token; 0 before the first. */
  version: number;
  /** Encrypted by those who have the secret of the settings; null before the first. */
  sealed: string | null;
  /** Epoch milliseconds of the warehouse's clock. */
  expires_at: number | null;
  /** Who asks the service for the next one, and until when nobody else does. */
  asker: string | null;
  asked_until: number | null;
}
