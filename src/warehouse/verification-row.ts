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
  /** Both as all times of own tables. */
  began_at: string;
  ended_at: string;
  /** Things that differ. */
  differences: number;
  /** Requests that it took. */
  requests: number;
  /** JSON: `Certificate` of `sync/verify/certificate.ts`. */
  certificate: string;
}
