import type { TimestampText } from './own-tables.ts';

/** The ways in which a copy is compared. */
export const VERIFY_MODES = ['whole', 'sample', 'internal'] as const;

export type VerifyMode = (typeof VERIFY_MODES)[number];

/** `unproved`: nothing differs in what was compared, but it is not known to be all that there is. */
export type Verdict = 'equal' | 'differs' | 'unproved';

/** What one verification of a resource has found. */
export interface VerificationRow {
  /** Sorts by time. */
  verification_id: string;
  resource: string;
  mode: VerifyMode;
  verdict: Verdict;
  began_at: TimestampText;
  ended_at: TimestampText;
  /** Things that differ. */
  differences: number;
  /** Requests that it took. */
  requests: number;
  /** JSON: `Certificate` of `sync/verify/certificate.ts`. */
  certificate: string;
}
