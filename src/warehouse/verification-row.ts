/** `whole` compares the copy with the service, `internal` with itself. */
export type VerifyMode = 'whole' | 'internal';

/** `unproved`: nothing differs in what was compared, but the listing may be incomplete. */
export type Verdict = 'equal' | 'differs' | 'unproved';

/** What one verification of a resource has found. */
export interface VerificationRow {
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
  /** JSON: `VerifyReport` of `sync/verify/report.ts`. */
  certificate: string;
}
