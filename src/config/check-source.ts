import { dirname } from 'node:path';
import { checkValue } from './file/check-value.ts';
import { type Filled, interpolate, type InterpolationContext } from './file/interpolate.ts';
import { holdsLiteralSecret } from './file/secret-fields.ts';
import {
  type Fault,
  type FieldPath,
  type LocatedValue,
  pathKey,
  type SettingsFinding,
  valueAt,
} from './file/yaml-file.ts';
import type { LoadedProfile, profileReader } from './load-profile.ts';
import { networkFindings } from './network.ts';
import { type AuthSettings, type Grant, matchSecrets, type SchemeWithSecrets } from './profile/auth.ts';
import { variablesIn } from './profile/basic-fields.ts';
import type { Profile } from './profile/profile.ts';
import { needsPublicUrl, type SignatureScheme } from './profile/signature-scheme.ts';
import { secretFault } from './profile/signature-secret.ts';
import { namedSourceSchema, type ScheduleSettings, type SourceFields, type WebhookSettings } from './settings.ts';
import { isLoopback } from './warehouse-address.ts';

/**
 * Checks the settings of one source, loads its profile, and checks that the two fit together: a profile with
 * `auth: { type: bearer }`, for example, needs a `token` in the settings. `load-settings.ts` calls `checkSource` for each.
 */

/** A source before the check: an entry of the config file, or a file of its own. */
export interface SourceEntry extends LocatedValue {
  name: string;
  /** The file as shown to a user, and its absolute path. */
  file: string;
  path: string;
  /** Why the file cannot be read. */
  faults: Fault[];
}

/** What the check of a source needs besides its own settings. */
export interface SourceContext extends InterpolationContext {
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** The path of a file as messages show it. */
  displayPath(path: string): string;
  readProfile: ReturnType<typeof profileReader>;
  hasPrivacyKey: boolean;
}

/** A source after the check; it may have both faults and settings. */
export interface CheckedSource extends SourceEntry {
  source: { settings: SourceFields; profile: Profile } | null;
  /** Texts from secret files and from the profile that must not be logged. */
  secrets: string[];
  /** True if the file itself contains a secret. */
  holdsSecret: boolean;
}

/** Fills in the placeholders of a source, checks its fields, and loads its profile, even if other fields have faults. */
export function checkSource(entry: SourceEntry, context: SourceContext): CheckedSource {
  if (entry.faults.length > 0) return { ...entry, source: null, secrets: [], holdsSecret: false };
  const { name, locate } = entry;
  const written = { sources: { [name]: entry.value } };
  const filled = interpolate(written, context);
  const { data, findings } = checkValue(namedSourceSchema, filled.value, filled.paths);
  const settings = data?.sources[name] ?? null;
  const loaded = loadNamedProfile(entry, filled, context);
  const { profile } = loaded;
  const contradictions = settings === null ? [] : sourceFindings(name, settings, profile, context);
  // An unset variable is one finding; that its placeholder is no valid URL, for example, is not reported too.
  const isFilled = ({ path }: SettingsFinding): boolean =>
    !filled.unset.has(pathKey(path)) && !filled.unset.has(pathKey([...path, 'value']));
  const allFindings = [...filled.findings, ...[...(findings ?? []), ...contradictions].filter(isFilled)];
  const isUsable = settings !== null && profile !== null;
  return {
    ...entry,
    source: isUsable ? { settings, profile: withDefaultStore(profile, settings.files.store) } : null,
    faults: [...allFindings.map(locate), ...loaded.faults],
    secrets: [...filled.secrets, ...loaded.secrets],
    holdsSecret: holdsLiteralSecret(written, filled.paths),
  };
}

/** Adds the default store of the source to files of the profile without a store. */
export function withDefaultStore(profile: Profile, defaultStore: string | null): Profile {
  if (defaultStore === null) return profile;
  const resources = Object.entries(profile.resources).map(([name, resource]) => {
    const files = resource.files.map((file) => ({ ...file, store: file.store ?? defaultStore }));
    return [name, { ...resource, files }] as const;
  });
  return { ...profile, resources: Object.fromEntries(resources) };
}

/** Loads the profile that the source names; a missing one is a fault of the source. */
function loadNamedProfile(
  { name, path: file, locate }: SourceEntry,
  filled: Filled,
  context: SourceContext,
): LoadedProfile {
  const path = ['sources', name, 'profile'];
  const profileName = valueAt(filled.value, path);
  const none = { profile: null, faults: [], secrets: [] };
  if (typeof profileName !== 'string' || profileName === '' || filled.unset.has(pathKey(path))) return none;
  const loaded = context.readProfile(profileName, dirname(file), context);
  if ('profile' in loaded) return loaded;
  return { ...none, faults: [locate({ path, part: 'value', message: loaded.missing })] };
}

/** Checks rules between fields of a source, its profile and files that it names. */
function sourceFindings(
  name: string,
  source: SourceFields,
  profile: Profile | null,
  context: SourceContext,
): SettingsFinding[] {
  const found = [
    ...networkFindings(source.http, context.cwd),
    ...(source.allow_insecure ? [] : insecureFindings(name, source, profile)),
    ...(profile === null ? [] : profileFindings(source, profile, context)),
  ];
  return found.map(({ path, part, message }) => ({ path: ['sources', name, ...path], part, message }));
}

function profileFindings(source: SourceFields, profile: Profile, context: SourceContext): SettingsFinding[] {
  const known = Object.keys(profile.resources);
  const refuseUnknown = (resource: string, path: FieldPath, part: SettingsFinding['part']): SettingsFinding[] => {
    const message = `expected one of ${known.join(', ')}, got ${JSON.stringify(resource)}`;
    return known.includes(resource) ? [] : [{ path, part, message }];
  };
  return [
    ...(source.resources ?? []).flatMap((resource, at) => refuseUnknown(resource, ['resources', at], 'value')),
    ...Object.keys(source.schedule.resources).flatMap((resource) =>
      refuseUnknown(resource, ['schedule', 'resources', resource], 'key'),
    ),
    ...known.flatMap((resource) => scheduleFindings(resource, source.schedule, profile)),
    ...authFindings(source.auth, profile),
    ...webhookFindings(source.webhook, profile.webhooks.signature),
    ...(context.hasPrivacyKey ? [] : hashFindings(source, profile)),
  ];
}

/** Finds URLs to which the credential would be sent without encryption. */
function insecureFindings(name: string, source: SourceFields, profile: Profile | null): SettingsFinding[] {
  return credentialUrls(source, profile).flatMap(({ path, url }): SettingsFinding[] => {
    const { protocol, hostname } = new URL(url);
    if (protocol === 'https:' || isLoopback(hostname)) return [];
    const message = `expected https, because the credential would cross the network unencrypted, got http (in a network that you trust, set sources.${name}.allow_insecure: true)`;
    return [{ path, part: 'value', message }];
  });
}

/** Returns the URLs that get the credential, with the field of each. */
function credentialUrls({ base_url, auth }: SourceFields, profile: Profile | null): { path: FieldPath; url: string }[] {
  if (auth === undefined || auth.type === 'none') return [];
  const base = { path: ['base_url'], url: base_url };
  if (auth.type !== 'oauth') return [base];
  if (auth.token_url !== undefined) return [base, { path: ['auth', 'token_url'], url: auth.token_url }];
  const inProfile = (profile?.auth ?? []).flatMap((scheme) =>
    scheme.type === 'oauth' ? (scheme.token_url ?? []) : [],
  );
  return [base, ...inProfile.map((url) => ({ path: ['profile'], url }))];
}

/** Finds resources without a filter and without times of full syncs, which would be read only once. */
function scheduleFindings(resource: string, schedule: ScheduleSettings, profile: Profile): SettingsFinding[] {
  const { incremental = schedule.incremental, full = schedule.full } = schedule.resources[resource] ?? {};
  if (profile.resources[resource]?.incremental !== null || full !== null || incremental === null) return [];
  const message = `expected times of full syncs, because ${resource} has no filter for what changed and can only be read in full, got null`;
  return [{ path: ['schedule', 'full'], part: 'value', message }];
}

/** Finds hashed fields without a key; without one, the values could be found by trying. */
function hashFindings({ hash_key }: SourceFields, { resources }: Profile): SettingsFinding[] {
  if (hash_key !== undefined) return [];
  const hashed = Object.entries(resources).flatMap(([resource, { fields }]) =>
    Object.entries(fields).flatMap(([path, { hash }]) => (hash ? [`${resource}.${path}`] : [])),
  );
  if (hashed.length === 0) return [];
  const message = `expected hash_key, a secret such as \${CONTENT_HASH_KEY} (openssl rand -hex 32), because the profile hashes ${hashed.join(', ')}, got none`;
  return [{ path: [], part: 'key', message }];
}

/** Checks that deliveries signed by this scheme can be verified with the configured secrets. */
function webhookFindings(webhook: WebhookSettings | undefined, scheme: SignatureScheme): SettingsFinding[] {
  if (webhook === undefined) return [];
  const findings = webhook.secrets.flatMap((secret, at): SettingsFinding[] => {
    const fault = secretFault(scheme, secret);
    const message = `${fault}, as the profile's webhooks.signature has it`;
    return fault === null ? [] : [{ path: ['webhook', 'secrets', at], part: 'value', message }];
  });
  if (needsPublicUrl(scheme) && webhook.public_url === undefined) {
    const message = "expected public_url, because the profile's webhooks.signature signs the address, got none";
    findings.push({ path: ['webhook'], part: 'key', message });
  }
  return findings;
}

/** Secrets that each grant needs. */
const OAUTH_NEEDS: Readonly<Record<Grant, readonly string[]>> = {
  client_credentials: ['client_id', 'client_secret'],
  refresh_token: ['client_id', 'refresh_token'],
  password: ['username', 'password'],
  jwt_bearer: ['key'],
};

/** Returns the names of the secrets that a scheme needs, besides those that its schema requires, and of the given ones. */
function neededSecrets({ scheme, secrets }: SchemeWithSecrets): { needs: readonly string[]; given: readonly string[] } {
  const given = Object.keys(secrets);
  if (scheme.type === 'session') return { needs: variablesIn(scheme.login), given };
  if (scheme.type === 'oauth') {
    const isPublic = scheme.client_auth === 'none';
    return { needs: OAUTH_NEEDS[scheme.grant].filter((name) => !isPublic || name !== 'client_secret'), given };
  }
  if (scheme.type !== 'headers' || secrets.type !== 'headers') return { needs: [], given };
  const sent = Object.keys(secrets.headers).map((name) => name.toLowerCase());
  return { needs: scheme.names?.map((name) => name.toLowerCase()) ?? [], given: sent };
}

/** Finds missing secrets for the scheme of the profile; `auth` is undefined if the settings have none. */
function authFindings(auth: AuthSettings | undefined, { auth: schemes }: Profile): SettingsFinding[] {
  const types = schemes?.map(({ type }) => type) ?? [];
  if (auth === undefined) {
    if (types.length === 0 || types.includes('none')) return [];
    return [{ path: ['auth'], part: 'key', message: `expected auth with type ${types.join(' or ')}, got nothing` }];
  }
  const plan = matchSecrets(schemes, auth);
  if (plan === null) {
    const why =
      types.length === 0
        ? 'auth in the profile, which describes it'
        : `${types.join(' or ')}, as the profile's auth has it`;
    return [{ path: ['auth', 'type'], part: 'value', message: `expected ${why}, got ${auth.type}` }];
  }
  const { needs, given } = neededSecrets(plan);
  const schemeName = plan.scheme.type === 'oauth' ? `oauth, grant ${plan.scheme.grant}` : plan.scheme.type;
  return [...new Set(needs)]
    .filter((name) => !given.includes(name))
    .map((name) => ({
      path: ['auth', ...(plan.type === 'headers' ? ['headers'] : []), name],
      part: 'value',
      message: `expected ${name}, as the profile's auth (${schemeName}) needs it, got nothing`,
    }));
}
