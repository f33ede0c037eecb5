import { type Answer, type Asker, isRefusal, isUsable, said } from './asker.ts';
import { recordArrays } from './body.ts';
import { type Credential, type CredentialForm, formsFor, likeliestFirst, NO_CREDENTIAL } from './credential-forms.ts';
import { countsIn } from './page-size.ts';
import type { Findings } from './profile.ts';

/** Paths at which services return the account of the caller. */
const IDENTITY_PATHS = ['/users/me', '/me', '/user', '/account', '/auth/me', '/whoami'];
/** Forms that are compared with a false credential if none of them opens anything. */
const MAX_COMPARED = 4;

interface AuthQuestion {
  asker: Asker;
  credential: Credential | null;
  forced: string | undefined;
  /** A path that may need the credential. */
  reference: string;
  findings: Findings;
}

interface FoundForm {
  form: CredentialForm;
  evidence: string;
  /** True if a false credential gets the same as none instead of being refused. */
  isLenient: boolean;
}

/**
 * Finds how the service wants the credential, by what is returned with the right one, without one and with a false one.
 * From then on the asker sends that form. False if the service refuses everything.
 */
export async function probeAuth({ asker, credential, forced, findings, ...question }: AuthQuestion): Promise<boolean> {
  const nobody = await asker.ask({ path: question.reference, form: NO_CREDENTIAL });
  const reference = nobody.status === 0 ? question.reference : asker.pathOf(nobody);
  const isPublic = isUsable(nobody);
  if (credential === null) {
    findings.proved(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}, without a credential`);
    return isPublic;
  }
  const challenge = `${String(nobody.headers['www-authenticate'] ?? '')} ${nobody.text}`;
  const forms = likeliestFirst(formsFor(credential, forced), challenge);
  const few = forms.slice(0, MAX_COMPARED);
  const found = isPublic
    ? ((await openingForm(asker, reference, few, nobody)) ??
      (await identifiedForm(asker, forms, findings)) ??
      (await distinguishedForm(asker, reference, few)))
    : ((await openingForm(asker, reference, forms, nobody)) ??
      // These requests were sent by now.
      (await distinguishedForm(asker, reference, forms)) ??
      (await identifiedForm(asker, forms, findings)));
  if (found !== null) {
    asker.form = found.form;
    findings.proved(['auth'], found.form.scheme, found.evidence);
    await addIdentity(asker, found, findings);
    return true;
  }
  if (isPublic) {
    const why = 'the credential, a false one and none get the same, so none is sent';
    findings.guessed(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}; ${why}`);
    return true;
  }
  const [form = NO_CREDENTIAL] = forms;
  asker.form = form;
  findings.guessed(['auth'], form.scheme, `${said(nobody)}; no form that was tried opens it`);
  return false;
}

/** The form that opens more than no credential: a response in place of a refusal, or more records. */
async function openingForm(
  asker: Asker,
  path: string,
  forms: readonly CredentialForm[],
  nobody: Answer,
): Promise<FoundForm | null> {
  for (const form of forms) {
    const own = await asker.ask({ path, form });
    if (!isUsable(own) || (isUsable(nobody) && isAlike(own, nobody))) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (isUsable(stranger) && isAlike(own, stranger)) continue;
    const evidence = `${form.shown}: ${own.status} with the credential, ${stranger.status} with a false one, ${nobody.status} without`;
    return { form, evidence, isLenient: isUsable(stranger) };
  }
  return null;
}

/** True for the same number of records and the same totals. */
function isAlike(one: Answer, other: Answer): boolean {
  return one.status === other.status && describeSize(one) === describeSize(other);
}

function describeSize(answer: Answer): string {
  const [array] = recordArrays(answer.json ?? null, '');
  const { totals } = countsIn(answer, array?.path ?? '');
  return `${array?.count ?? 0} ${Math.max(0, ...totals.map(({ value }) => value))}`;
}

/** For public listings: the form that opens a path which only a known caller may request. */
async function identifiedForm(
  asker: Asker,
  forms: readonly CredentialForm[],
  findings: Findings,
): Promise<FoundForm | null> {
  for (const path of IDENTITY_PATHS) {
    const nobody = await asker.ask({ path, form: NO_CREDENTIAL });
    if (nobody.status !== 401 && nobody.status !== 403) continue;
    for (const form of forms) {
      const opened = await requestIdentity(asker, path, form);
      if (opened === null) continue;
      const evidence = `${form.shown}: ${opened}, ${nobody.status} without`;
      findings.proved(['identity'], path, evidence);
      return { form, evidence, isLenient: false };
    }
    return null;
  }
  return null;
}

/** The evidence that a path opens with the right credential only; null if it does not. */
async function requestIdentity(asker: Asker, path: string, form: CredentialForm): Promise<string | null> {
  const own = await asker.ask({ path, form });
  if (!isUsable(own)) return null;
  const stranger = await asker.ask({ path, form, isFalse: true });
  return isUsable(stranger) ? null : `${said(own)} with the credential, ${stranger.status} with a false one`;
}

/** If even the right credential opens nothing yet: the form in which a false one gets another response. */
async function distinguishedForm(
  asker: Asker,
  path: string,
  forms: readonly CredentialForm[],
): Promise<FoundForm | null> {
  for (const form of forms) {
    const own = await asker.ask({ path, form });
    if (own.status === 401 || own.status === 0) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (stranger.status === own.status || !isRefusal(stranger)) continue;
    const evidence = `${form.shown}: ${own.status} with the credential, ${stranger.status} with a false one`;
    return { form, evidence, isLenient: false };
  }
  return null;
}

/** A credential that has become invalid must be noticed: if it would not be refused, an identity path shows it. */
async function addIdentity(asker: Asker, { form, isLenient }: FoundForm, findings: Findings): Promise<void> {
  if (!isLenient || findings.all.some(({ path }) => path[0] === 'identity')) return;
  for (const path of IDENTITY_PATHS) {
    const opened = await requestIdentity(asker, path, form);
    if (opened !== null) return findings.proved(['identity'], path, opened);
  }
  const why = 'a false credential is answered as if there were none, and no path says who is asking';
  findings.guessed(['identity'], null, why);
}
