import type { Probe } from '../app.ts';
import type { CheckFinding, RequestContext } from '../checks/listing-walk.ts';
import { newMeter } from '../http/client.ts';
import { ConfigError } from '../model/errors.ts';
import type { SourceSettings } from '../settings/settings.ts';
import { versionText, withVersion } from '../source/http-fields.ts';
import { compareVersions } from '../sync/check/compare-versions.ts';
import type { CliContext } from './command/context.ts';

/** The differences between two versions of a service's API. */
export interface VersionReport {
  source: string;
  version: string;
  compared_with: string;
  resources: { resource: string; findings: CheckFinding[] }[];
}

/** The same source that asks for another version. Throws `ConfigError` if its profile cannot name that one. */
export function askingFor(source: SourceSettings, version: string): SourceSettings {
  const profile = withVersion(source.profile, version);
  if (profile !== null) return { ...source, profile };
  const present = versionText(source.profile);
  throw new ConfigError(
    'usage',
    `the profile of ${source.name} cannot ask for the version ${JSON.stringify(version)}`,
    {
      hint: `it names ${present}: declare in the profile where the version stands, as version_prefix, version.header or version.query`,
    },
  );
}

export async function compareSource(
  present: Probe,
  other: Probe,
  resources: readonly string[],
  { clock, signal }: CliContext,
): Promise<VersionReport> {
  const compared: VersionReport['resources'] = [];
  for (const resource of resources) {
    const contexts = [present, other].flatMap(({ source, client, listing }): RequestContext[] => {
      const profile = source.profile.resources[resource];
      return profile === undefined ? [] : [{ profile, listing, client, clock, signal, meter: newMeter() }];
    });
    const [before, after] = contexts;
    if (before === undefined || after === undefined) continue;
    compared.push({ resource, findings: await compareVersions(before, after, present.source.profile.resources) });
  }
  return {
    source: present.source.name,
    version: versionText(other.source.profile),
    compared_with: versionText(present.source.profile),
    resources: compared,
  };
}
