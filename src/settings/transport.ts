import type { Profile } from '../source/profile.ts';
import type { FieldPath, Fault, SettingsFinding } from './file/fault.ts';
import type { SourcesFile } from './settings.ts';
import { isLoopback } from './warehouse-address.ts';

/** Addresses to which a source's credential would be sent without encryption, unless `allow_insecure` says so. */
export function insecureFindings(sources: SourcesFile, profiles: ReadonlyMap<string, Profile>): SettingsFinding[] {
  return Object.entries(sources).flatMap(([name, source]): SettingsFinding[] => {
    if (source.allow_insecure) return [];
    return addressesOf(source, profiles.get(name)).flatMap(({ path, url }): SettingsFinding[] => {
      const { protocol, hostname } = new URL(url);
      if (protocol === 'https:' || isLoopback(hostname)) return [];
      const message = `expected https, because the credential would go readable over the network, got http (where the way is safe, set sources.${name}.allow_insecure: true)`;
      return [{ path: ['sources', name, ...path], part: 'value', message }];
    });
  });
}

/** Where the credential goes, by the field of the source that says so. */
function addressesOf(
  { base_url, auth }: SourcesFile[string],
  profile: Profile | undefined,
): { path: FieldPath; url: string }[] {
  if (auth === undefined || auth.type === 'none') return [];
  const base = { path: ['base_url'], url: base_url };
  if (auth.type !== 'oauth') return [base];
  if (auth.token_url !== undefined) return [base, { path: ['auth', 'token_url'], url: auth.token_url }];
  const inProfile = (profile?.auth ?? []).flatMap((scheme) =>
    scheme.type === 'oauth' ? (scheme.token_url ?? []) : [],
  );
  return [base, ...inProfile.map((url) => ({ path: ['profile'], url }))];
}

/** An environment in which no certificate would be checked. */
export function tlsFaults(env: NodeJS.ProcessEnv): Fault[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  const field = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const message =
    'expected to be unset, got 0: certificates would not be checked; for an authority of your own set NODE_EXTRA_CA_CERTS';
  return [{ file: 'environment', line: 1, column: 1, field, message }];
}
