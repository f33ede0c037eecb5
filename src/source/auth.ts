import { z } from 'zod';
import { authHeaderName } from './auth-carrier.ts';
import { usualScheme, type AuthScheme, type SchemeOf, type SchemeType } from './auth-scheme.ts';

/** Spaces, controls and anything outside printable ASCII are not allowed in an Authorization header. */
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/;

/** A credential that is valid in a header: not empty, printable ASCII, so without a secret file's line break. */
const secret = z.string().regex(PRINTABLE_ASCII, {
  // The value itself must never appear in a message.
  error: 'expected a secret of printable characters without spaces or line breaks',
});

/** One that is encoded before it is sent. */
const password = z.string().refine((text) => text !== '' && !/\p{Cc}/u.test(text), {
  error: 'expected a secret without line breaks and control characters',
});
const username = password.refine((text) => !text.includes(':'), { error: 'expected a user name without a colon' });
/** A key may have several lines. */
const key = z.string().min(1, { error: 'expected a key, got nothing' });

const userName = { description: 'Name of the user', examples: ['ann@example.com'] };
const userPassword = { description: 'Password of the user', examples: ['${CONTENT_PASSWORD}'] };
const keyId = { description: 'Name of the key: `{key_id}` in the fields of a JWT', examples: ['key-1'] };

const OPTIONAL = {
  username: password.optional().meta(userName),
  password: password.optional().meta(userPassword),
  key: key.optional(),
};

/** The secrets of a source, by the scheme that they are for. */
export const authSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.literal('api_key'), key: secret }),
  z.strictObject({
    type: z.literal('headers'),
    headers: z
      .record(
        authHeaderName,
        z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, {
          error: 'expected a secret of printable characters without line breaks',
        }),
      )
      .meta({
        description: 'The secret headers by name',
        examples: [{ 'X-App-Id': 'blog', 'X-App-Key': '${CONTENT_APP_KEY}' }],
      }),
  }),
  z.strictObject({
    type: z.literal('basic'),
    username: username.meta(userName),
    password: password.meta(userPassword),
  }),
  z.strictObject({
    type: z.literal('bearer'),
    token: secret.meta({ description: 'The token', examples: ['${CONTENT_TOKEN}'] }),
  }),
  z.strictObject({
    type: z.literal('oauth'),
    client_id: secret.optional(),
    client_secret: secret.optional(),
    refresh_token: secret.optional().meta({
      description: 'The first refresh token; those that replace it are kept in the warehouse',
      examples: ['${CONTENT_REFRESH_TOKEN}'],
    }),
    ...OPTIONAL,
    key_id: secret.optional().meta(keyId),
    scope: z.string().min(1).optional(),
    /** Whole URL of the token endpoint; the profile's `token_path` below the base URL if absent. */
    token_url: z.url({ protocol: /^https?$/ }).optional(),
  }),
  z.strictObject({
    type: z.literal('jwt'),
    key,
    key_id: secret.optional().meta(keyId),
    username: password.optional().meta(userName),
  }),
  z.strictObject({ type: z.literal('session'), ...OPTIONAL }),
]);

export type AuthSettings = z.output<typeof authSchema>;
type Secrets = { [T in SchemeType]: Extract<AuthSettings, { type: T }> };

/** A scheme with the secrets for it. */
export interface PlanOf<T extends SchemeType> {
  type: T;
  scheme: SchemeOf<T>;
  secrets: Secrets[T];
}
export type AuthPlan = PlanOf<SchemeType>;

/**
 * The scheme for these secrets, with them; null if there is none. Without schemes in the profile the type of the secrets
 * is the scheme, if that has no fields without a default.
 */
export function authPlan(schemes: readonly AuthScheme[] | undefined, secrets: AuthSettings): AuthPlan | null {
  return planOf(secrets.type, secrets, schemes ?? [usualScheme(secrets.type)].flatMap((usual) => usual ?? []));
}

function planOf<T extends SchemeType>(type: T, secrets: Secrets[T], schemes: readonly AuthScheme[]): PlanOf<T> | null {
  const scheme = schemes.find((one): one is SchemeOf<T> => one.type === type);
  return scheme === undefined ? null : { type, scheme, secrets };
}

/** Settings that say who asks, but not that it is true. */
export const PUBLIC_FIELDS: ReadonlySet<unknown> = new Set([
  'type',
  'client_id',
  'key_id',
  'username',
  'scope',
  'token_url',
]);

/** All texts in the settings that are secrets. */
export function secretsOf(auth: AuthSettings): string[] {
  if (auth.type === 'headers') return Object.values(auth.headers);
  return Object.entries(auth).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'string' && !PUBLIC_FIELDS.has(name) ? [value] : [],
  );
}

/**
 * Who asks, as one text that another credential of the service does not have, and what else its listings may depend on.
 * The caller is empty where nobody is named.
 */
export function identityOf(auth: AuthSettings): { caller: string; rights: readonly string[] } {
  if (auth.type === 'oauth') {
    const { client_id: id, username: user, key_id: key, scope = '' } = auth;
    const named = [id, user, key].filter((text) => text !== undefined);
    // A client that has no name is known by its secret.
    const caller = named.length === 0 ? secretsOf(auth).join('\n') : named.join('\n');
    return { caller, rights: [scope] };
  }
  const user = 'username' in auth ? [auth.username ?? ''] : [];
  // A user's password may change: the user stays the same.
  const named = auth.type === 'basic' || (auth.type === 'session' && user[0] !== '') ? user : secretsOf(auth);
  return { caller: named.join('\n'), rights: [] };
}
