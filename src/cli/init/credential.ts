import { ConfigError } from '../../model/errors.ts';
import type { CliContext } from '../command/context.ts';
import type { Questions } from './questions.ts';

/** Names of the parts of a credential in the config, by kind: who asks, and the secret. */
const PARTS = {
  none: {},
  api_key: { secret: 'key' },
  bearer: { secret: 'token' },
  jwt: { secret: 'key' },
  basic: { user: 'username', secret: 'password' },
  session: { user: 'username', secret: 'password' },
  oauth: { user: 'client_id', secret: 'client_secret' },
} as const satisfies Readonly<Record<string, { user?: string; secret?: string }>>;

/** A kind of credential that can be asked for with one secret and perhaps a name. */
export type AskedAuth = keyof typeof PARTS;

/** True for kinds of credentials that can be asked for. */
export function isAskedAuth(type: string): type is AskedAuth {
  return Object.hasOwn(PARTS, type);
}

/** True if a name belongs to the secret. */
export function needsUser(type: AskedAuth): boolean {
  return 'user' in PARTS[type];
}

/** A secret, and the variable that holds it. */
export interface TakenSecret {
  variable: string;
  value: string;
  /** True if the variable is not set yet: then it goes into `.env`. */
  isNew: boolean;
}

/**
 * The secret from the named variable, or from the person at the terminal; null if nothing was typed and `isOptional`.
 * From here on it is never written but to `.env`. Throws `ConfigError` if nobody can be asked.
 */
export async function takeSecret(
  { env, secrets }: Pick<CliContext, 'env' | 'secrets'>,
  questions: Questions,
  { about, preset, isOptional }: { about: string; preset: string; isOptional: boolean },
  named: string | undefined,
): Promise<TakenSecret | null> {
  const variable = named ?? preset;
  const known = env[variable] ?? '';
  if (known !== '') {
    secrets.push(known);
    return { variable, value: known, isNew: false };
  }
  if (!questions.isAsking) {
    if (named === undefined && isOptional) return null;
    if (named !== undefined) throw notSet(variable, about);
  }
  const value = await questions.secret({
    message: `${about.charAt(0).toUpperCase()}${about.slice(1)} (not shown${isOptional ? '; nothing if there is none' : ''})`,
    option: '--credential-env',
    isOptional,
  });
  if (value === '') return null;
  secrets.push(value);
  return { variable, value, isNew: true };
}

function notSet(variable: string, about: string): ConfigError {
  return new ConfigError('usage', `the environment variable ${variable} is not set`, {
    hint: `set it where content-sync is started, or in .env: ${about}`,
  });
}

/** What stands under `auth` in the config, with the name of the variable in place of the secret. */
export function writtenAuth(type: AskedAuth, variable: string | null, user: string | null): Record<string, string> {
  const parts: { user?: string; secret?: string } = PARTS[type];
  return {
    type,
    ...(parts.user === undefined || user === null ? {} : { [parts.user]: user }),
    ...(parts.secret === undefined || variable === null ? {} : { [parts.secret]: `\${${variable}}` }),
  };
}
