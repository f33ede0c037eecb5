import { countIn } from '../../extract/requests/body-account.ts';
import { recordsOf } from '../../extract/requests/read-page.ts';
import { requestAt } from '../../extract/page-styles/listing-request.ts';
import type { Page } from '../../extract/page.ts';
import { urlAt } from '../../extract/page-styles/position.ts';
import type { OtherCaller } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { askIdentity, isRefusal, type IdentityRequest } from '../identity.ts';
import { listingWalk } from '../listing-walk.ts';
import type { RequestContext } from '../resource-context.ts';
import { failure, type CheckFinding } from './finding.ts';
import { pageAsListed, type FirstPage } from './first-page.ts';

/** The first page as each caller gets it; null if the service refuses. */
type Answers = Readonly<Record<OtherCaller, FirstPage | null>>;

const NAME_IDENTITY =
  'name a path in the profile that answers only who is known, such as `identity: /users/me`: then a credential that is ignored ends the run';

/**
 * Whether the credential makes a difference: compares what is got without one, and with a false one. `isIdentified`:
 * the identity path was seen to answer this credential only.
 */
export async function credentialFinding(
  context: RequestContext,
  page: Page,
  isIdentified: boolean,
): Promise<CheckFinding> {
  const own = pageAsListed(page, context.profile);
  const answers = {
    nobody: await asOther(context, page, 'nobody'),
    stranger: await asOther(context, page, 'stranger'),
  };
  const doubt = credentialDoubt(own, answers);
  if (doubt === null)
    return { check: 'credential', status: 'ok', detail: 'without it, or with a false one, all is refused' };
  if (isIdentified) return { check: 'credential', status: 'ok', detail: `${doubt}; the identity path proves it` };
  return { check: 'credential', status: 'warn', detail: doubt, hint: NAME_IDENTITY };
}

/** Why a wrong credential would not be noticed, as a sentence; null if it would be. Pure. */
function credentialDoubt(own: FirstPage, { nobody, stranger }: Answers): string | null {
  if (stranger === null) {
    return nobody === null || !isAlike(own, nobody)
      ? null
      : 'without a credential the first page is the same: the listing is public, and a false one is refused';
  }
  if (isAlike(own, stranger)) {
    return nobody === null
      ? 'a false credential gets the same as the own one: the service does not look at it'
      : 'without a credential, and with a false one, the first page is the same: the listing is public, or the own one is ignored too';
  }
  return `a false credential is not refused: it gets ${sizeOf(stranger)}, the own one ${sizeOf(own)}, so a credential that has become invalid would look like deleted records`;
}

function isAlike(one: FirstPage, other: FirstPage): boolean {
  return one.total === other.total && keysOf(one) === keysOf(other);
}

function keysOf({ records }: FirstPage): string {
  return records.map(({ key }) => key).join('\n');
}

function sizeOf({ total, records }: FirstPage): string {
  return total === null ? `${records.length} records on the first page` : `${total} records`;
}

async function asOther(context: RequestContext, { position }: Page, as: OtherCaller): Promise<FirstPage | null> {
  const { client, listing, profile, meter, signal } = context;
  const { resource, values = {} } = listingWalk(context, 'incremental');
  const parts = { target: listing, templates: profile, values };
  const request = requestAt(parts, urlAt(listing.baseUrl, position));
  try {
    const answer = await client.get({ ...request, lane: 'incremental', meter, signal, as });
    const records = recordsOf(answer, resource);
    // An answer that is no listing is as good as a refusal.
    if (records === null) return null;
    return pageAsListed({ records, total: countIn(answer, profile.page.total ?? null), next: null }, profile);
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
}

/** Whether the identity path answers the credential, and only that. */
export async function identityFinding(request: IdentityRequest): Promise<CheckFinding> {
  const check = 'identity';
  try {
    await askIdentity(request);
  } catch (error) {
    return failure(check, error);
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
