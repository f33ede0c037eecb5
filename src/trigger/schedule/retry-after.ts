const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A person has to mend these first; asking more often would only look like an attack. */
const CREDENTIAL_MS = HOUR_MS;
/** Another process owns the resource: it may end at any time. */
const LEASE_MS = 15_000;

const BY_CODE: Readonly<Record<string, number>> = {
  auth_failed: CREDENTIAL_MS,
  refresh_token_refused: CREDENTIAL_MS,
  bad_token: CREDENTIAL_MS,
  forbidden: CREDENTIAL_MS,
  identity_refused: CREDENTIAL_MS,
  lease_held: LEASE_MS,
  lease_lost: LEASE_MS,
};

const LONGEST_MS = 15 * MINUTE_MS;

/** Milliseconds until a resource is tried again that failed so many times in a row, the last time with this code. */
export function retryAfter(failures: number, code: string | null): number {
  return BY_CODE[code ?? ''] ?? Math.min(MINUTE_MS * 2 ** (Math.max(1, failures) - 1), LONGEST_MS);
}
