// Finds how a service wants the credential. Example: without one `/posts` is 401, with `Authorization: Bearer <token>`
// it is 200, and with a false token it is 401 again: so the service reads the token there.
import { type CredentialForm, formsFor, likeliestFirst, NO_CREDENTIAL } from './credential-forms.ts';
import {
  describeResponse,
  isRefusal,
  isUsable,
  type ProbeClient,
  type ProbeClientOptions,
  type ProbeResponse,
} from './probe-client.ts';
import type { ProbeContext } from './probed-listing.ts';
import type { Findings } from './profile.ts';
import { recordLists } from './record-lists.ts';
import { countsIn } from './response-signs.ts';
import { IDENTITY_PATHS } from './vocabulary.ts';

/** Forms that are compared with a false credential if the service shows no difference to a request without one. */
const MAX_COMPARED = 4;

/**
 * Finds how the service wants the credential, by what is returned at `reference`, a path that may need it, with the right
 * one, without one and with a false one. From then on the client sends that form. False if the service refuses everything.
 */
export async function probeAuth(
  { client, conventions }: ProbeContext,
  { credential, auth: forced }: ProbeClientOptions,
  reference: string,
  findings: Findings,
): Promise<boolean> {
  const none = await client.get({ path: reference, form: NO_CREDENTIAL });
  const path = none.status === 0 ? reference : client.finalPath(none);
  const isPublic = isUsable(none);
  if (credential === null) {
    findings.proved(['auth'], NO_CREDENTIAL.scheme, `${describeResponse(none)}, without a credential`);
    return isPublic;
  }
  const text = `${none.text} ${conventions.credentialText}`;
  const challenge = { scheme: String(none.headers['www-authenticate'] ?? ''), text };
  const forms = likeliestFirst(formsFor(credential, forced), challenge);
  const found =
    (await findForm(client, path, isPublic ? forms.slice(0, MAX_COMPARED) : forms, none)) ??
    (await probeIdentity(client, forms, findings));
  const [first = NO_CREDENTIAL] = forms;
  client.form = found?.form ?? (isPublic ? NO_CREDENTIAL : first);
  const { scheme } = client.form;
  if (found === null) {
    const same = 'the credential, a false one and none get the same, so none is sent';
    const why = isPublic ? same : 'no form that was tried opens it';
    findings.guessed(['auth'], scheme, `${describeResponse(none)}; ${why}`);
    return isPublic;
  }
  findings.proved(['auth'], scheme, found.evidence);
  // A credential that has become invalid must be noticed: if it would not be refused, an identity path shows it.
  if (found.isLenient && (await probeIdentity(client, [found.form], findings))?.isOpened !== true) {
    const why = 'a false credential is answered as if there were none, and no path says who is asking';
    findings.guessed(['identity'], null, why);
  }
  return true;
}

/** The first form that a path for known callers shows; the path is the identity of the profile if the form opens it. */
async function probeIdentity(
  client: ProbeClient,
  forms: readonly CredentialForm[],
  findings: Findings,
): ReturnType<typeof findForm> {
  let found: Awaited<ReturnType<typeof findForm>> = null;
  // Where all forms were refused at one path, they are at the others.
  for (const path of client.isRefused() ? [] : IDENTITY_PATHS) {
    const none = await client.get({ path, form: NO_CREDENTIAL });
    if (none.status !== 401 && none.status !== 403) continue;
    found = await findForm(client, path, forms, none);
    // A missing path, which is refused to strangers only, shows the form as well, but not who is asking.
    if (found?.isOpened === true) findings.proved(['identity'], path, found.evidence);
    if (found?.isOpened === true || forms.length > 1) return found;
  }
  return found;
}

/**
 * The first form of which the service shows that it reads it: the right credential opens more than none and than a false
 * one (`isOpened`), or a false one is refused in another way. `isLenient`: a false one gets the same as none, no refusal.
 */
async function findForm(client: ProbeClient, path: string, forms: readonly CredentialForm[], none: ProbeResponse) {
  for (const [at, form] of forms.entries()) {
    const own = await client.get({ path, form });
    if (own.status === 401 || own.status === 0) continue;
    const opensMore = isUsable(own) && !(isUsable(none) && isAlike(own, none));
    // Where nothing differs from a request without a credential, only the likeliest forms are worth another request.
    if (!opensMore && own.status === none.status && at >= MAX_COMPARED) continue;
    const withFalse = await client.get({ path, form, isFalse: true });
    const isOpened = opensMore && (!isUsable(withFalse) || !isAlike(own, withFalse));
    if (!isOpened && (withFalse.status === own.status || !isRefusal(withFalse))) continue;
    const evidence = `${form.shown}: ${own.status} with the credential, ${withFalse.status} with a false one, ${none.status} without`;
    return { form, evidence, isOpened, isLenient: isUsable(withFalse) };
  }
  return null;
}

/** True for the same number of records and the same totals. */
function isAlike(one: ProbeResponse, other: ProbeResponse): boolean {
  const [a, b] = [one, other].map((response) => {
    const [{ path, count } = { path: '', count: 0 }] = recordLists(response.json ?? null, '');
    return `${response.status} ${count} ${Math.max(0, ...countsIn(response, path).totals.map(({ value }) => value))}`;
  });
  return a === b;
}
