import {
  type Grant,
  type SchemeOf,
  type SchemeType,
  authPlan,
  type AuthPlan,
  type AuthSettings,
} from '../source/auth.ts';
import type { Profile } from '../source/profile.ts';
import { variablesIn } from '../source/basic-fields.ts';
import type { SettingsFinding } from './file/fault.ts';

/** The names of secrets that a scheme cannot do without, and of those that it may take. */
interface Needs {
  needs: readonly string[];
  takes: readonly string[];
}

/** By the grant; scope and token_url go with all of them. */
const OAUTH_NEEDS: Readonly<Record<Grant, Needs>> = {
  client_credentials: { needs: ['client_id', 'client_secret'], takes: [] },
  refresh_token: { needs: ['client_id', 'refresh_token'], takes: ['client_secret'] },
  password: { needs: ['username', 'password'], takes: ['client_id', 'client_secret'] },
  jwt_bearer: { needs: ['key'], takes: ['client_id', 'client_secret', 'key_id', 'username'] },
};

/** Those of the other schemes are told by their own form. */
const NEEDS: { readonly [T in SchemeType]: (scheme: SchemeOf<T>) => Needs | null } = {
  none: () => null,
  api_key: () => null,
  headers: () => null,
  basic: () => null,
  bearer: () => null,
  jwt: () => null,
  oauth: ({ grant, client_auth }) => {
    const { needs, takes } = OAUTH_NEEDS[grant];
    const isPublic = client_auth === 'none';
    return {
      needs: needs.filter((name) => !isPublic || name !== 'client_secret'),
      takes: [...takes, 'scope', 'token_url'],
    };
  },
  session: ({ login }) => ({ needs: [...new Set(textsIn(login).flatMap(variablesIn))], takes: [] }),
};

/**
 * Whether the secrets of a source are those that the profile's scheme wants. `auth` is absent where the settings have
 * none. Paths are below the source.
 */
export function authFindings(auth: AuthSettings | undefined, { auth: schemes }: Profile): SettingsFinding[] {
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

function needsOf<T extends SchemeType>(type: T, scheme: SchemeOf<T>): Needs | null {
  return NEEDS[type](scheme);
}

function nameFindings({ type, scheme, secrets }: AuthPlan): SettingsFinding[] {
  const listed = needsOf(type, scheme);
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

/** Names of headers are alike in any case. */
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
