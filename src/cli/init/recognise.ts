import { meetsConditions } from '../../http/outcome/outcome.ts';
import type { Answer } from '../../probe/asker.ts';
import { packagedProfiles, readPackagedProfile } from '../../settings/load-profile.ts';
import type { Profile } from '../../source/profile.ts';

/** A shipped profile whose signs the service shows. */
export interface Recognised {
  name: string;
  profile: Profile;
}

/** Asks for a path on the address, without a credential. */
export type Ask = (path: string) => Promise<Pick<Answer, 'status' | 'headers' | 'json'>>;

/**
 * The shipped profiles of which the service shows every sign; several if one service has several APIs. `path` is that
 * of the address: the service may stand below the root, and the address may name its API.
 */
export async function recogniseService(ask: Ask, path: string): Promise<Recognised[]> {
  const found: Recognised[] = [];
  for (const name of packagedProfiles()) {
    const profile = readPackagedProfile(name);
    const signs = profile.about?.recognised_by ?? [];
    const below = withoutPrefix(path, profile);
    if (signs.length > 0 && (await showsAll((sign) => ask(below + sign), signs))) found.push({ name, profile });
  }
  return found;
}

async function showsAll(ask: Ask, signs: NonNullable<Profile['about']>['recognised_by']): Promise<boolean> {
  for (const { path, ...conditions } of signs) {
    const { status, headers, json } = await ask(path);
    if (status === 0 || !meetsConditions(conditions, { status, headers, json })) return false;
  }
  return true;
}

/** Of several APIs of one service, those for which this credential has the right form. */
export function fittingProfiles(recognised: readonly Recognised[], credential: string): Recognised[] {
  return recognised.filter(({ profile }) => {
    const form = profile.about?.credential_form;
    return form === undefined || new RegExp(form).test(credential);
  });
}

/** The address without the part that the profile puts before every path: people copy it from a browser. */
export function withoutPrefix(address: string, { version_prefix }: Profile): string {
  const plain = address.replace(/\/+$/, '');
  return version_prefix !== '' && plain.endsWith(version_prefix) ? plain.slice(0, -version_prefix.length) : plain;
}
