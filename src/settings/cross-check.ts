import type { Profile } from '../source/profile.ts';
import { needsPublicUrl, type SignatureScheme } from '../source/signature-scheme.ts';
import { secretFault } from '../source/signature-secret.ts';
import { authFindings } from './auth-findings.ts';
import { suggestion } from './file/did-you-mean.ts';
import type { SettingsFinding } from './file/fault.ts';
import type { ScheduleSettings, SourcesFile, WebhookSettings } from './settings.ts';
import { grammarOf } from './warehouse-address.ts';

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

/** Whether each source has a place of its own in the warehouse. `isOpen` where there may be further sources any day. */
export function placementFindings(warehouse: string, sources: readonly string[], isOpen: boolean): SettingsFinding[] {
  const grammar = grammarOf(warehouse);
  if (grammar === undefined) return [];
  if ((isOpen || sources.length > 1) && !grammar.hasPlacePerSource(warehouse)) {
    const { where, what } = grammar.place;
    const message = `expected {source} in the ${where}, because each of several sources has its own ${what}, got none`;
    return [{ path: ['warehouse'], part: 'value', message }];
  }
  return sources.flatMap((name): SettingsFinding[] => {
    const message = grammar.sourceFault(warehouse, name, sources);
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
    const message = `expected one of ${known.join(', ')}, got ${JSON.stringify(resource)}${suggestion(resource, known)}`;
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

/** A resource without a filter needs the times of full walks: without those it would be walked only once. */
function scheduleFindings(resource: string, schedule: ScheduleSettings, profile: Profile): SettingsFinding[] {
  const { incremental = schedule.incremental, full = schedule.full } = schedule.resources[resource] ?? {};
  if (profile.resources[resource]?.incremental !== null || full !== null || incremental === null) return [];
  const message = `expected times, because ${resource} has no filter for what changed and is only walked fully, got null`;
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
