import { createHash } from 'node:crypto';
import { identityOf, type AuthSettings } from './auth.ts';
import type { Profile } from './profile.ts';
import { isVersionDeclared, versionText } from './http-fields.ts';

/** The budget belongs to the origin and the credential, so that another key has a budget of its own. */
export function budgetName(origin: string, auth: AuthSettings): string {
  const { caller } = identityOf(auth);
  return caller === '' ? origin : `${origin} ${shortHash(caller)}`;
}

/** Includes the scope and the version that the profile declares, because listings may depend on them. */
export function credentialName({
  base_url,
  auth,
  profile,
}: {
  base_url: string;
  auth: AuthSettings;
  profile: Profile;
}): string {
  const { caller, rights } = identityOf(auth);
  const version = isVersionDeclared(profile) ? [versionText(profile)] : [];
  return shortHash(JSON.stringify([new URL(base_url).origin, caller, ...rights, ...version]));
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
