import { backoffDelay, type BackoffLimits } from '../../http/request-loop.ts';
import { DeferredError, messageOf, SyncError } from '../../model/errors.ts';

export interface DrainFault {
  /**
   * Whose fault it is that a delivery could not be served. `record`: this record or what the profile says of it; it is
   * tried so many times and is then dead. `passing`: the service, the warehouse or another process; that costs no
   * attempt, and the whole resource waits.
   */
  kind: 'record' | 'passing';
  /** Stable, as in `SyncError`; `behind` if the reading was older than the event. */
  code: string;
  reason: string;
  /** Epoch milliseconds before which it must not be tried again; null if our own backoff decides. */
  until: number | null;
  /** True if another process works on it, out of the same inbox: what is put off there is put off for both. */
  isOthers: boolean;
}

interface FaultRow {
  codes: string;
  kind: DrainFault['kind'];
  /** Between attempts, if nobody named a time. */
  waits: BackoffLimits;
  isOthers?: true;
}

const MOMENT_WAITS: BackoffLimits = { base: 1_000, cap: 15_000 };
const PASSING: FaultRow = { codes: '', kind: 'passing', waits: { base: 2_000, cap: 300_000 } };

/** By the code of the error; whatever is not named here is nobody's record: it passes, or somebody mends it. */
const FAULTS: readonly FaultRow[] = [
  // A replica that lags behind is there in a moment.
  { codes: 'behind', kind: 'record', waits: { base: 1_000, cap: 60_000 } },
  {
    // An id that no address can be made of never becomes one; the others of its resource must not wait for it.
    codes: `item_other item_missing not_found gone bad_request bad_url forbidden not_supported
      bad_json bad_text bad_content bad_encoding empty_body error_in_body body_too_large
      unsupported_charset unsupported_encoding headers_too_large contract_frozen bug`,
    kind: 'record',
    // Long enough for something that a person has to mend.
    waits: { base: 5_000, cap: 300_000 },
  },
  // Another process holds it for a moment: minutes would be too long.
  { codes: 'lease_held', kind: 'passing', waits: MOMENT_WAITS, isOthers: true },
  // Until a person resumes it: it stays in the inbox as it is, for whoever works on it then.
  { codes: 'paused', kind: 'passing', waits: { base: 60_000, cap: 60_000 }, isOthers: true },
  { codes: 'lease_lost warehouse_busy warehouse_gone', kind: 'passing', waits: MOMENT_WAITS },
];

/** The fault with which those deliveries wait whose work has thrown. */
export function faultOf(error: unknown): DrainFault {
  const code = error instanceof SyncError ? error.code : 'bug';
  const until = error instanceof DeferredError ? error.until : null;
  const { kind, isOthers = false } = rowOf(code);
  return { kind, code, reason: `${messageOf(error)} [${code}]`, until, isOthers };
}

/** A walk that fails says nothing against a delivery, and shows in the runs. */
export function faultOfWalk(error: unknown): DrainFault {
  return { ...faultOf(error), kind: 'passing' };
}

/** The fault of a delivery whose record was read in an older state than its event tells. */
export const BEHIND: DrainFault = {
  kind: 'record',
  code: 'behind',
  reason: 'what the service answered is older than the event: it is read again [behind]',
  until: null,
  isOthers: false,
};

/** Milliseconds until the next attempt after so many that failed in a row, 1 or more. */
export function waitAfter(fault: DrainFault, failures: number, now: number, random: () => number): number {
  if (fault.until !== null) return Math.max(0, fault.until - now);
  return backoffDelay(failures, rowOf(fault.code).waits, random);
}

function rowOf(code: string): FaultRow {
  return FAULTS.find(({ codes }) => codes.split(/\s+/).includes(code)) ?? PASSING;
}
