import { z } from 'zod';

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~\w-]+$/, 'expected the name of a header');
const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'expected printable ASCII without line breaks');

/** The version of the service's API that is asked for, in every request to it. */
export const versionSchema = z.strictObject({
  prefix: z
    .string()
    .regex(/^(\/[^/]+)*$/, 'expected a prefix such as /v1')
    .optional()
    .meta({
      description: 'Beginning of every path, in place of `version_prefix`.',
      examples: ['/v1', '/api/2024-01', ''],
    }),
  header: z
    .strictObject({
      name: headerName.meta({ description: 'Name of that header.', examples: ['Accept-Version'] }),
      value: headerValue.meta({ description: 'Its value, the version.', examples: ['v6.0'] }),
    })
    .nullable()
    .default(null)
    .meta({
      description: 'Header that names the version.',
      examples: [{ name: 'Accept-Version', value: 'v6.0' }],
    }),
  query: z
    .record(z.string().min(1), z.string())
    .default({})
    .meta({
      description: 'Query parameters that name the version.',
      examples: [{ 'api-version': '2024-01-01' }],
    }),
});

type VersionFields = z.output<typeof versionSchema>;

/** The part of a profile that says which version is asked for. */
export interface Versioned {
  version_prefix: string;
  version: VersionFields;
}

/** The version as requests name it. */
export interface RequestedVersion {
  /** Empty, or such as `/v1`. */
  prefix: string;
  /** By name in lower case. */
  headers: Readonly<Record<string, string>>;
  query: Readonly<Record<string, string>>;
}

export function requestedVersion({ version_prefix, version: { prefix, header, query } }: Versioned): RequestedVersion {
  const headers = header === null ? {} : { [header.name.toLowerCase()]: header.value };
  return { prefix: prefix ?? version_prefix, headers, query };
}

/** True if the profile names the version otherwise than by `version_prefix` alone. */
export function isVersionDeclared({ version: { prefix, header, query } }: Versioned): boolean {
  return prefix !== undefined || header !== null || Object.keys(query).length > 0;
}

/** The version as a person reads it, such as `/v1, accept-version: v6.0`; also by it what a service said is stored. */
export function versionText(profile: Versioned): string {
  const { prefix, headers, query } = requestedVersion(profile);
  const parts = [
    ...(prefix === '' ? [] : [prefix]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...Object.entries(query).map(([name, value]) => `${name}=${value}`),
  ];
  return parts.length === 0 ? 'no version' : parts.join(', ');
}

/**
 * The same profile that asks for another version: by its header if it names one there, else by its one query parameter,
 * else in place of the prefix's last segment (or of all of it, if the version begins with a slash). Null if the profile
 * names no version that could be replaced, or the text cannot stand there.
 */
export function withVersion<P extends Versioned>(profile: P, version: string): P | null {
  const { header, query } = profile.version;
  if (header !== null) return replaced(profile, { header: { ...header, value: version } });
  const [name, ...others] = Object.keys(query);
  if (name !== undefined) return others.length > 0 ? null : replaced(profile, { query: { [name]: version } });
  const { prefix } = requestedVersion(profile);
  if (version.startsWith('/')) return replaced(profile, { prefix: version });
  if (prefix === '' || version.includes('/')) return null;
  return replaced(profile, { prefix: `${prefix.slice(0, prefix.lastIndexOf('/'))}/${version}` });
}

function replaced<P extends Versioned>(profile: P, fields: Partial<VersionFields>): P | null {
  const parsed = versionSchema.safeParse({ ...profile.version, ...fields });
  return parsed.success ? { ...profile, version: parsed.data } : null;
}
