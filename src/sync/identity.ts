import { singleRequest, type ListingTarget } from '../extract/page-styles/listing-request.ts';
import { newMeter, type ApiClient, type OtherCaller } from '../http/client.ts';
import { DeferredError, SyncError } from '../model/errors.ts';

/** A request to the identity path. */
export interface IdentityRequest {
  client: ApiClient;
  listing: ListingTarget;
  /** Path below the version prefix. */
  path: string;
  signal: AbortSignal;
}

/**
 * Asks the service who is asking; `as` asks in place of the own credential. Throws `identity_refused` if the service
 * does not know, and what the client throws where it cannot be told.
 */
export async function askIdentity({ client, listing, path, signal }: IdentityRequest, as?: OtherCaller): Promise<void> {
  const request = singleRequest({ target: listing, templates: { path, query: {} }, values: {} });
  try {
    const answer = await client.get({ ...request, lane: 'incremental', meter: newMeter(), signal, as });
    if (answer.outcome === 'ok') return;
  } catch (error) {
    throw isRefusal(error) ? refused(path, error) : error;
  }
  throw refused(path);
}

/** True if the service has answered with a refusal: asking again would change nothing. */
export function isRefusal(error: unknown): error is SyncError {
  if (!(error instanceof SyncError) || error instanceof DeferredError || error.code === 'interrupted') return false;
  return error.recovery === 'stop' || error.code === 'error_in_body';
}

function refused(path: string, cause?: SyncError): SyncError {
  const why = cause === undefined ? 'a rule of the profile leaves it out' : cause.message;
  return new SyncError('identity_refused', `the service does not say who is asking at ${path}: ${why}`, {
    recovery: 'stop',
    hint: 'the credential is wrong, expired or revoked: check auth in the configuration, and identity in the profile',
    cause,
  });
}
