// Judges whether the service looks at the credential, from what it answers to the right one, a false one and none.
// Example: if a false key gets the public posts, an expired one would look like the deletion of all others.
import { type ApiClient, newMeter, type OtherCaller } from '../http/client.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import { type ListingTarget, singleRequest } from '../pagination/page-styles/listing-request.ts';
import { type CheckFinding, fail, failure, ok, warn } from './listing-scan.ts';

interface IdentityRequest {
  client: ApiClient;
  listing: ListingTarget;
  /** Below the version prefix. */
  path: string;
  signal: AbortSignal;
}

/**
 * Requests the identity path; `as` replaces the own credential. Throws `auth_failed` if the service refuses, and
 * what the client throws if that is not known.
 */
export async function requestIdentity(
  { client, listing, path, signal }: IdentityRequest,
  as?: OtherCaller,
): Promise<void> {
  const request = singleRequest({ target: listing, templates: { path, query: {} }, values: {} });
  try {
    const answer = await client.get({ ...request, lane: 'incremental', meter: newMeter(), signal, as });
    if (answer.outcome === 'ok') return;
  } catch (error) {
    throw isRequestRefused(error) ? identityRefused(path, error) : error;
  }
  throw identityRefused(path);
}

/** True if the service refused the request, so that the same request would be refused again. */
export function isRequestRefused(error: unknown): error is SyncError {
  if (!(error instanceof SyncError) || error instanceof DeferredError || error.code === 'interrupted') return false;
  return error.recovery === 'stop' || error.code === 'error_in_body';
}

function identityRefused(path: string, cause?: SyncError): SyncError {
  const why = cause === undefined ? 'a rule of the profile leaves it out' : cause.message;
  return new SyncError('auth_failed', `the service does not say who is asking at ${path}: ${why}`, {
    recovery: 'stop',
    hint: 'the credential is wrong, expired or revoked: check auth in the configuration, and identity in the profile',
    cause,
  });
}

/** Whether the identity path answers the credential, and only that. */
export async function identityFinding(request: IdentityRequest): Promise<CheckFinding> {
  const check = 'identity';
  try {
    await requestIdentity(request);
  } catch (error) {
    return failure(check, error);
  }
  try {
    await requestIdentity(request, 'stranger');
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'auth_failed') throw error;
    return ok(check, `${request.path} answers this credential only`);
  }
  return fail(
    check,
    `${request.path} answers a false credential as well: it proves nothing`,
    'name a path as identity that answers only who is known, such as the account of the caller',
  );
}

/** What a caller gets: the number of records, and a text that differs between different listings; null if refused. */
export type CallerView = { size: string; content: string } | null;

/** How the service treats the own credential, none, and a false one. */
export interface CallerViews {
  own: CallerView;
  nobody: CallerView;
  stranger: CallerView;
}

/** Whether a wrong credential would be noticed. `isIdentified`: the identity path answers the own credential only. */
export function credentialFinding(views: CallerViews, isIdentified: boolean): CheckFinding {
  const check = 'credential';
  const doubt = credentialDoubt(views);
  if (doubt === null) return ok(check, 'without it, or with a false one, all is refused');
  const hint =
    'name a path in the profile that answers only who is known, such as `identity: /users/me`: then a credential that is ignored ends the run';
  return isIdentified ? ok(check, `${doubt}; the identity path proves it`) : warn(check, doubt, hint);
}

/** Why a wrong credential would not be noticed; null if it would be. */
function credentialDoubt({ own, nobody, stranger }: CallerViews): string | null {
  const isPublic = nobody !== null && nobody.content === own?.content;
  if (stranger === null) {
    return isPublic
      ? 'without a credential the first page is the same: the listing is public, and a false one is refused'
      : null;
  }
  if (stranger.content !== own?.content)
    return `a false credential is not refused: it gets ${stranger.size}, the own one ${own?.size ?? 'nothing'}, so a credential that has become invalid would look like deleted records`;
  return nobody === null
    ? 'a false credential gets the same as the own one: the service does not look at it'
    : 'without a credential, and with a false one, the first page is the same: the listing is public, or the own one is ignored too';
}
