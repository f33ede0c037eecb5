import { SyncError, messageOf } from '../../model/errors.ts';
import { askIdentity, type IdentityRequest } from '../identity.ts';
import type { CheckFinding } from './finding.ts';

/** Whether the identity path answers the credential, and only that. */
export async function identityFinding(request: IdentityRequest): Promise<CheckFinding> {
  const check = 'identity';
  try {
    await askIdentity(request);
  } catch (error) {
    return {
      check,
      status: 'fail',
      detail: messageOf(error),
      hint: error instanceof SyncError ? error.hint : undefined,
    };
  }
  if (await isRefused(request)) return { check, status: 'ok', detail: `${request.path} answers this credential only` };
  return {
    check,
    status: 'fail',
    detail: `${request.path} answers a false credential as well: it proves nothing`,
    hint: 'name a path as identity that answers only who is known, such as the account of the caller',
  };
}

async function isRefused(request: IdentityRequest): Promise<boolean> {
  try {
    await askIdentity(request, 'stranger');
    return false;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'identity_refused') return true;
    throw error;
  }
}
