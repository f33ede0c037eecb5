import { ConfigError } from '../model/errors.ts';
import { fieldMask, keyMark } from '../shape/mask-fields.ts';
import type { Profile, ResourceProfile } from '../source/profile.ts';
import type { RecordMask } from '../source/record-fields.ts';

/** The profile with what hides its fields; `key` is the source's secret for hashes. */
export function maskedProfile(profile: Profile, key: string | undefined): Profile {
  const resources = Object.entries(profile.resources).map(([name, resource]): [string, ResourceProfile] => [
    name,
    resource.mask === null ? resource : { ...resource, mask: maskOf(resource, key) },
  ]);
  return { ...profile, resources: Object.fromEntries(resources) };
}

function maskOf({ fields }: ResourceProfile, key: string | undefined): RecordMask {
  if (!Object.values(fields).some(({ hash }) => hash)) return Object.assign(fieldMask(fields, ''), { mark: '' });
  if (key === undefined) {
    const hint = 'set hash_key of the source to a secret of its own, such as the output of: openssl rand -hex 32';
    throw new ConfigError('settings_invalid', 'the profile hashes fields, and the source has no hash_key', { hint });
  }
  return Object.assign(fieldMask(fields, key), { mark: keyMark(key) });
}
