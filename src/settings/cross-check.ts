import type { Profile } from '../source/profile.ts';
import type { Finding } from './fault.ts';
import { suggestion } from './known-keys.ts';
import type { SettingsFile } from './settings.ts';

/** What can only be seen from several fields, or from the config and its profiles, together. */
export function crossFindings(file: SettingsFile, profiles: ReadonlyMap<string, Profile>): Finding[] {
  const findings = Object.entries(file.sources).flatMap(([name, source]) => {
    const profile = profiles.get(name);
    return profile === undefined ? [] : sourceFindings(name, source, profile);
  });
  if (Object.keys(file.sources).length > 1 && !file.warehouse.includes('{source}')) {
    const message = 'expected {source} in the path, because each of several sources has its own file, got none';
    findings.push({ path: ['warehouse'], part: 'value', message });
  }
  return findings;
}

function sourceFindings(name: string, source: SettingsFile['sources'][string], profile: Profile): Finding[] {
  const known = Object.keys(profile.resources);
  const unknown = (resource: string, path: (string | number)[], part: Finding['part']): Finding[] => {
    if (known.includes(resource)) return [];
    const message = `expected one of ${known.join(', ')}, got ${JSON.stringify(resource)}${suggestion(resource, known)}`;
    return [{ path: ['sources', name, ...path], part, message }];
  };
  return [
    ...(source.resources ?? []).flatMap((resource, at) => unknown(resource, ['resources', at], 'value')),
    ...Object.keys(source.schedule.resources).flatMap((resource) =>
      unknown(resource, ['schedule', 'resources', resource], 'key'),
    ),
  ];
}
