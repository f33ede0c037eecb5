import type { SettingsFinding } from './file/yaml-file.ts';
import { authPlan, type AuthPlan, type AuthSettings, type Grant, type SchemeOf } from './profile/auth.ts';
import { variablesIn } from './profile/basic-fields.ts';
import type { Profile } from './profile/profile.ts';
import { needsPublicUrl, type SignatureScheme } from './profile/signature-scheme.ts';
import { secretFault } from './profile/signature-secret.ts';
import type { ScheduleSettings, SourcesFile, WebhookSettings } from './settings.ts';
import { sharingFault, sourceNameFault } from './warehouse-address.ts';

/** Checks that concern several fields of a source, or a source and its profile, together. */
export function crossCheck(
  sources: SourcesFile,
  profiles: ReadonlyMap<string, Profile>,
  hasPrivacyKey: boolean,
): SettingsFinding[] {
  return Object.entries(sources).flatMap(([name, source]) => {
    const profile = profiles.get(name);
    return profile === undefined ? [] : sourceFindings(name, source, profile, hasPrivacyKey);
  });
}

/** Checks that each source has a place of its own in the warehouse. `isOpen` if sources may be added at any time. */
export function placementFindings(warehouse: string, sources: readonly string[], isOpen: boolean): SettingsFinding[] {
  const shared = isOpen || sources.length > 1 ? sharingFault(warehouse) : null;
  if (shared !== null) return [{ path: ['warehouse'], part: 'value', message: shared }];
  return sources.flatMap((name): SettingsFinding[] => {
    const message = sourceNameFault(warehouse, name, sources);
    return message === null ? [] : [{ path: ['sources', name], part: 'key', message }];
  });
}

function sourceFindings(
  name: string,
  source: SourcesFile[string],
  profile: Profile,
  hasPrivacyKey: boolean,
): SettingsFinding[] {
  const known = Object.keys(profile.resources);
  const unknown = (resource: string, path: (string | number)[], part: SettingsFinding['part']): SettingsFinding[] => {
    if (known.includes(resource)) return [];
    const message = `expected one of ${known.join(', ')}, got ${JSON.stringify(resource)}`;
    return [{ path: ['sources', name, ...path], part, message }];
  };
  return [
    ...(source.resources ?? []).flatMap((resource, at) => unknown(resource, ['resources', at], 'value')),
    ...Object.keys(source.schedule.resources).flatMap((resource) =>
      unknown(resource, ['schedule', 'resources', resource], 'key'),
    ),
    ...known.flatMap((resource) => scheduleFindings(resource, source.schedule, profile).map(below(name))),
    ...authFindings(source.auth, profile).map(below(name)),
    ...webhookFindings(source.webhook, profile.webhooks.signature).map(below(name)),
    ...(hasPrivacyKey ? [] : hashFindings(source, profile).map(below(name))),
  ];
}

/** Moves a finding's path below its source. */
function below(source: string): (finding: SettingsFinding) => SettingsFinding {
  return (finding) => ({ ...finding, path: ['sources', source, ...finding.path] });
}

/** A resource without a filter needs times of full syncs: without them it would be read only once. */
function scheduleFindings(resource: string, schedule: ScheduleSettings, profile: Profile): SettingsFinding[] {
  const { incremental = schedule.incremental, full = schedule.full } = schedule.resources[resource] ?? {};
  if (profile.resources[resource]?.incremental !== null || full !== null || incremental === null) return [];
  const message = `expected times of full syncs, because ${resource} has no filter for what changed and can only be read in full, got null`;
  return [{ path: ['schedule', 'full'], part: 'value', message }];
}

/** Hashes need a key: without one everybody could find the values by trying. */
function hashFindings({ hash_key }: SourcesFile[string], { resources }: Profile): SettingsFinding[] {
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

/** The names of the secrets that a scheme requires, and of those that it also accepts. */
interface Needs {
  needs: readonly string[];
  takes: readonly string[];
}

/** By the grant; each also accepts scope and token_url. */
const OAUTH_NEEDS: Readonly<Record<Grant, Needs>> = {
  client_credentials: { needs: ['client_id', 'client_secret'], takes: [] },
  refresh_token: { needs: ['client_id', 'refresh_token'], takes: ['client_secret'] },
  password: { needs: ['username', 'password'], takes: ['client_id', 'client_secret'] },
  jwt_bearer: { needs: ['key'], takes: ['client_id', 'client_secret', 'key_id', 'username'] },
};

/** Null for schemes whose secrets the settings schema checks already. */
function requiredSecrets(scheme: AuthPlan['scheme']): Needs | null {
  if (scheme.type === 'session') {
    return { needs: [...new Set(textsIn(scheme.login).flatMap(variablesIn))], takes: [] };
  }
  if (scheme.type !== 'oauth') return null;
  const { needs, takes } = OAUTH_NEEDS[scheme.grant];
  const isPublic = scheme.client_auth === 'none';
  return {
    needs: needs.filter((name) => !isPublic || name !== 'client_secret'),
    takes: [...takes, 'scope', 'token_url'],
  };
}

/**
 * Whether the secrets of a source are those that the profile's scheme wants. `auth` is absent where the settings have
 * none. Paths are below the source.
 */
function authFindings(auth: AuthSettings | undefined, { auth: schemes }: Profile): SettingsFinding[] {
  const types = schemes?.map(({ type }) => type) ?? [];
  if (auth === undefined) {
    if (types.length === 0 || types.includes('none')) return [];
    return [{ path: ['auth'], part: 'key', message: `expected auth with type ${types.join(' or ')}, got nothing` }];
  }
  const plan = authPlan(schemes, auth);
  if (plan === null) {
    const why =
      types.length === 0
        ? 'auth in the profile, which describes it'
        : `${types.join(' or ')}, as the profile's auth has it`;
    return [{ path: ['auth', 'type'], part: 'value', message: `expected ${why}, got ${auth.type}` }];
  }
  const { scheme, secrets } = plan;
  const isHeaders = scheme.type === 'headers' && secrets.type === 'headers';
  return isHeaders ? headerFindings(scheme, secrets.headers) : nameFindings(plan);
}

function nameFindings({ scheme, secrets }: AuthPlan): SettingsFinding[] {
  const listed = requiredSecrets(scheme);
  if (listed === null) return [];
  const { needs, takes } = listed;
  const of = scheme.type === 'oauth' ? `${scheme.type}, grant ${scheme.grant}` : scheme.type;
  const given = Object.keys(secrets).filter((name) => name !== 'type');
  const known = [...needs, ...takes];
  return [
    ...missing(needs, given, ['auth'], of),
    ...given
      .filter((name) => !known.includes(name))
      .map((name) => unneeded(name, ['auth', name], `${known.join(', ')}, as the profile's auth (${of}) has it`)),
  ];
}

/** The names of headers are case-insensitive. */
function headerFindings(scheme: SchemeOf<'headers'>, headers: Readonly<Record<string, string>>): SettingsFinding[] {
  const given = Object.keys(headers);
  if (scheme.names === undefined)
    return given.length > 0 ? [] : missing(['a header'], [], ['auth', 'headers'], 'headers');
  const known = scheme.names.map((name) => name.toLowerCase());
  return [
    ...missing(
      known,
      given.map((name) => name.toLowerCase()),
      ['auth', 'headers'],
      'headers',
    ),
    ...given
      .filter((name) => !known.includes(name.toLowerCase()))
      .map((name) =>
        unneeded(name, ['auth', 'headers', name], `${scheme.names?.join(', ')}, as the profile's auth has it`),
      ),
  ];
}

function missing(needs: readonly string[], given: readonly string[], path: string[], of: string): SettingsFinding[] {
  const message = (name: string): string => `expected ${name}, as the profile's auth (${of}) needs it, got nothing`;
  return needs
    .filter((name) => !given.includes(name))
    .map((name) => ({ path: [...path, name], part: 'value', message: message(name) }));
}

function unneeded(name: string, path: string[], expected: string): SettingsFinding {
  return { path, part: 'key', message: `expected ${expected}, got ${JSON.stringify(name)}` };
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
