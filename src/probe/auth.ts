// Finds how a service wants the credential.
import { type Credential, type CredentialForm, formsFor, likeliestFirst, NO_CREDENTIAL } from './credential-forms.ts';
import { describeResponse, isRefusal, isUsable, type ProbeClient, type ProbeResponse } from './probe-client.ts';
import type { Findings } from './profile.ts';
import { recordLists } from './record-lists.ts';
import { countsIn } from './response-signs.ts';
import { IDENTITY_PATHS } from './vocabulary.ts';

/** Forms that are compared with a false credential if the service shows no difference to a request without one. */
const MAX_COMPARED = 4;

interface AuthExperiment {
  client: ProbeClient;
  credential: Credential | null;
  /** The only form to try, as the user wrote it. */
  forced: string | undefined;
  /** A path that may need the credential. */
  reference: string;
  /** What a document of the service says about credentials. */
  documented: string;
  findings: Findings;
}

/** A form that the service reads, and the responses that show it. */
interface FoundForm {
  form: CredentialForm;
  evidence: string;
  /** True if a false credential gets the same as none instead of being refused. */
  isLenient: boolean;
}

/**
 * Finds how the service wants the credential, by what is returned with the right one, without one and with a false one.
 * From then on the client sends that form. False if the service refuses everything.
 */
export async function probeAuth({ client, credential, forced, findings, ...at }: AuthExperiment): Promise<boolean> {
  const none = await client.get({ path: at.reference, form: NO_CREDENTIAL });
  const path = none.status === 0 ? at.reference : client.finalPath(none);
  const isPublic = isUsable(none);
  if (credential === null) {
    findings.proved(['auth'], NO_CREDENTIAL.scheme, `${describeResponse(none)}, without a credential`);
    return isPublic;
  }
  const challenge = { scheme: String(none.headers['www-authenticate'] ?? ''), text: `${none.text} ${at.documented}` };
  const forms = likeliestFirst(formsFor(credential, forced), challenge);
  const compared = isPublic ? forms.slice(0, MAX_COMPARED) : forms;
  const found =
    (await findForm(client, path, { forms: compared, none })) ?? (await identifiedForm(client, forms, findings));
  if (found !== null) {
    client.form = found.form;
    findings.proved(['auth'], found.form.scheme, found.evidence);
    if (found.isLenient) await addIdentity(client, found.form, findings);
    return true;
  }
  if (isPublic) {
    const why = 'the credential, a false one and none get the same, so none is sent';
    findings.guessed(['auth'], NO_CREDENTIAL.scheme, `${describeResponse(none)}; ${why}`);
    return true;
  }
  const [form = NO_CREDENTIAL] = forms;
  client.form = form;
  findings.guessed(['auth'], form.scheme, `${describeResponse(none)}; no form that was tried opens it`);
  return false;
}

/**
 * The first form of which the service shows that it reads it: the right credential opens more than none and than a false
 * one, or a false one is refused in another way.
 */
async function findForm(
  client: ProbeClient,
  path: string,
  { forms, none }: { forms: readonly CredentialForm[]; none: ProbeResponse },
): Promise<FoundForm | null> {
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
    return { form, evidence, isLenient: isUsable(withFalse) };
  }
  return null;
}

/** True for the same number of records and the same totals. */
function isAlike(one: ProbeResponse, other: ProbeResponse): boolean {
  return one.status === other.status && describeSize(one) === describeSize(other);
}

function describeSize(response: ProbeResponse): string {
  const [list] = recordLists(response.json ?? null, '');
  const { totals } = countsIn(response, list?.path ?? '');
  return `${list?.count ?? 0} ${Math.max(0, ...totals.map(({ value }) => value))}`;
}

/** For public listings: the form that opens a path which only a known caller may request. */
async function identifiedForm(
  client: ProbeClient,
  forms: readonly CredentialForm[],
  findings: Findings,
): Promise<FoundForm | null> {
  // Where all forms were refused at one path, they are at the others.
  for (const path of client.isRefused() ? [] : IDENTITY_PATHS) {
    const none = await client.get({ path, form: NO_CREDENTIAL });
    if (none.status !== 401 && none.status !== 403) continue;
    const found = await findForm(client, path, { forms, none });
    if (found !== null) findings.proved(['identity'], path, found.evidence);
    return found;
  }
  return null;
}

/** A credential that has become invalid must be noticed: if it would not be refused, an identity path shows it. */
async function addIdentity(client: ProbeClient, form: CredentialForm, findings: Findings): Promise<void> {
  for (const path of IDENTITY_PATHS) {
    const own = await client.get({ path, form });
    if (!isUsable(own)) continue;
    const withFalse = await client.get({ path, form, isFalse: true });
    if (isUsable(withFalse)) continue;
    const evidence = `${describeResponse(own)} with the credential, ${withFalse.status} with a false one`;
    return findings.proved(['identity'], path, evidence);
  }
  const why = 'a false credential is answered as if there were none, and no path says who is asking';
  findings.guessed(['identity'], null, why);
}
