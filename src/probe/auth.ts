import {
  type Credential,
  type CredentialForm,
  formsFor,
  likeliestFirst,
  NO_CREDENTIAL,
  type Answer,
  type Asker,
  isRefusal,
  isUsable,
  said,
} from './asker.ts';
import { recordArrays } from './body.ts';
import { countsIn } from './page-size.ts';
import type { Findings } from './stage.ts';

/** Paths at which services say who is asking. */
const IDENTITY_PATHS = ['/users/me', '/me', '/user', '/account', '/auth/me', '/whoami'];
/** Forms that are compared with a false credential where none of them opens anything. */
const MOST_COMPARED = 4;

interface AuthQuestion {
  asker: Asker;
  credential: Credential | null;
  forced: string | undefined;
  /** A path that may need the credential. */
  reference: string;
  findings: Findings;
}

/**
 * Finds how the service wants the credential, by what is got with the right one, without one and with a false one. From
 * here on the asker asks in that form. False if the service does not let anybody in.
 */
export async function probeAuth({ asker, credential, forced, findings, ...question }: AuthQuestion): Promise<boolean> {
  const nobody = await asker.ask({ path: question.reference, form: NO_CREDENTIAL });
  const reference = nobody.status === 0 ? question.reference : asker.pathOf(nobody);
  if (credential === null) {
    findings.proved(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}, without a credential`);
    return isUsable(nobody);
  }
  const challenge = `${String(nobody.headers['www-authenticate'] ?? '')} ${nobody.text}`;
  const forms = likeliestFirst(formsFor(credential, forced), challenge);
  const found = isUsable(nobody)
    ? ((await openingForm(asker, reference, forms.slice(0, MOST_COMPARED), nobody)) ??
      (await identifiedForm(asker, forms, findings)) ??
      (await distinguishedForm(asker, reference, forms.slice(0, MOST_COMPARED))))
    : ((await openingForm(asker, reference, forms, nobody)) ??
      // Their answers are known by now.
      (await distinguishedForm(asker, reference, forms)) ??
      (await identifiedForm(asker, forms, findings)));
  if (found !== null) {
    asker.form = found.form;
    findings.proved(['auth'], found.form.scheme, found.evidence);
    await addIdentity(asker, found, findings);
    return true;
  }
  if (isUsable(nobody)) {
    const why = 'the credential, a false one and none get the same, so none is sent';
    findings.guessed(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}; ${why}`);
    return true;
  }
  const [form = NO_CREDENTIAL] = forms;
  asker.form = form;
  findings.guessed(['auth'], form.scheme, `${said(nobody)}; no form that was tried opens it`);
  return false;
}

interface FoundForm {
  form: CredentialForm;
  evidence: string;
  /** True if a false credential is answered like none instead of being refused. */
  isLenient: boolean;
}

/** The form with which more is got than without: an answer in place of a refusal, or more records. */
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

/** True for the same records and the same counts. */
function isAlike(one: Answer, other: Answer): boolean {
  return one.status === other.status && sizeOf(one) === sizeOf(other);
}

function sizeOf(answer: Answer): string {
  const [array] = recordArrays(answer.json ?? null, '');
  const { totals } = countsIn(answer, array?.path ?? '');
  return `${array?.count ?? 0} ${Math.max(0, ...totals.map(({ value }) => value))}`;
}

/** Where the listing is public: a path that answers only who is known. */
async function identifiedForm(
  asker: Asker,
  forms: readonly CredentialForm[],
  findings: Findings,
): Promise<FoundForm | null> {
  for (const path of IDENTITY_PATHS) {
    const nobody = await asker.ask({ path, form: NO_CREDENTIAL });
    if (nobody.status !== 401 && nobody.status !== 403) continue;
    for (const form of forms) {
      const own = await asker.ask({ path, form });
      if (!isUsable(own)) continue;
      const stranger = await asker.ask({ path, form, isFalse: true });
      if (isUsable(stranger)) continue;
      const evidence = `${form.shown}: ${said(own)} with the credential, ${stranger.status} with a false one, ${nobody.status} without`;
      findings.proved(['identity'], path, evidence);
      return { form, evidence, isLenient: false };
    }
    return null;
  }
  return null;
}

/** Where even the right credential opens nothing yet: the form in which a false one is answered otherwise. */
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

/** A credential that has become invalid must be noticed: where it would not be refused, an identity path tells. */
async function addIdentity(asker: Asker, { form, isLenient }: FoundForm, findings: Findings): Promise<void> {
  if (!isLenient || findings.all.some(({ path }) => path[0] === 'identity')) return;
  for (const path of IDENTITY_PATHS) {
    const own = await asker.ask({ path, form });
    if (!isUsable(own)) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (isUsable(stranger)) continue;
    return findings.proved(['identity'], path, `${said(own)} with the credential, ${stranger.status} with a false one`);
  }
  findings.guessed(
    ['identity'],
    null,
    'a false credential is answered as if there were none, and no path says who is asking',
  );
}
