/**
 * The fields `auth` of profile and settings. The profile describes how requests are authenticated (`profileAuthSchema`),
 * such as `{ type: api_key, name: X-Api-Key }`: it can be shared, because it has no secrets. The settings have the secrets
 * (`authSecretsSchema`), such as `{ type: api_key, key: ... }`. `matchSecrets` finds the scheme for the secrets.
 */
import { z } from 'zod';
import { documented, duration, templateSchema } from './basic-fields.ts';

/** True for a header of the connection, which a profile must not set. */
const isConnectionHeader = (name: string): boolean =>
  /^(?:host|connection|content-length|transfer-encoding)$/i.test(name);
const CONNECTION_ERROR = 'expected a header that is not one of the connection itself';

/** The name of a header for a credential. */
const authHeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\w-]+$/, 'expected the name of a header')
  .refine((name) => !isConnectionHeader(name), CONNECTION_ERROR);

/** Fields for the location of the credential in a request. */
const carrier = {
  in: documented(z.enum(['header', 'query']).default('header'))('Where the credential is sent', ['query']),
  name: z
    .string()
    .regex(/^[!#$%&'*+.^_`|~\w[\]-]+$/, 'expected the name of a header or query parameter')
    .refine((name) => !isConnectionHeader(name), CONNECTION_ERROR)
    .optional()
    .meta({ description: 'Name of that header or parameter; Authorization by default', examples: ['X-Api-Key'] }),
  prefix: documented(
    z
      .string()
      .regex(/^[\x20-\x7e]*$/, 'expected printable ASCII')
      .optional(),
  )('Text before the credential; Bearer by default in Authorization', ['Ghost', 'Token token=']),
};

/** A header has a default name, a query parameter has none. */
const hasName = (carried: { in: string; name?: string | undefined }): boolean =>
  carried.in !== 'query' || carried.name !== undefined;
const NAME_MISSING = { path: ['name'], error: 'expected the name of the query parameter' };

const path = z.string().regex(/^\/[^?#\s]*$/, 'expected a path that begins with /, without ? and #');

const jwtFields = {
  algorithm: documented(z.enum(['HS256', 'RS256', 'ES256']).default('HS256'))('How a JWT is signed', ['ES256']),
  key_encoding: documented(z.enum(['utf8', 'hex', 'base64', 'pem']).optional())(
    'Encoding of the key; utf8 by default for HS256, else pem',
    ['hex'],
  ),
  header: z
    .record(z.string(), templateSchema(['key_id', 'client_id']))
    .default({})
    .meta({ description: 'Further fields of the header of a JWT', examples: [{ kid: '{key_id}' }] }),
  claims: z
    .record(
      z.string(),
      z.union([templateSchema(['key_id', 'client_id', 'username', 'scope', 'token_url']), z.number(), z.boolean()]),
    )
    .default({})
    .meta({ description: 'Claims besides iat and exp, which are always there', examples: [{ aud: '/admin/' }] }),
  lifetime: documented(duration.prefault('5m'))('From iat to exp', ['10m']),
};

const GRANTS = ['client_credentials', 'refresh_token', 'password', 'jwt_bearer'] as const;

const SCHEMES = [
  z
    .strictObject({ type: z.literal('none').meta({ description: 'The scheme', examples: ['none'] }) })
    .meta({ description: 'Nothing is sent' }),
  documented(z.strictObject({ type: z.literal('api_key'), ...carrier }).refine(hasName, NAME_MISSING))(
    'One secret, `key`',
  ),
  z
    .strictObject({
      type: z.literal('headers'),
      names: documented(z.array(authHeaderName).min(1).optional())(
        'Names of the secret headers; those in the settings by default',
        [['X-App-Id', 'X-App-Key']],
      ),
    })
    .meta({ description: 'Several secret headers, `headers`' }),
  z.strictObject({ type: z.literal('basic') }).meta({ description: 'Basic authentication: `username`, `password`' }),
  z.strictObject({ type: z.literal('bearer') }).meta({ description: 'A token that does not change, `token`' }),
  z
    .strictObject({
      type: z.literal('oauth'),
      grant: documented(z.enum(GRANTS).default('client_credentials'))('How a token is requested', ['refresh_token']),
      token_url: documented(z.url({ protocol: /^https?$/ }).optional())(
        'URL of the token endpoint; the settings can override it',
        ['https://login.example.com/oauth/token'],
      ),
      token_path: documented(path.optional())('Its path below base_url; /oauth/token by default', ['/oauth2/token']),
      client_auth: documented(z.enum(['body', 'basic', 'none']).optional())(
        'How the client authenticates at the token endpoint',
        ['basic'],
      ),
      parameters: documented(z.record(z.string(), z.string()).default({}))('Further parameters of a token request', [
        { audience: 'https://api.example.com' },
      ]),
      ...jwtFields,
      ...carrier,
    })
    .refine(hasName, NAME_MISSING)
    .meta({ description: 'OAuth 2.0; a refresh token that is replaced is kept in the warehouse' }),
  z
    .strictObject({
      type: z.literal('jwt'),
      key_format: documented(z.enum(['secret', 'id:secret']).default('secret'))(
        'Whether `key` is a secret, or an id and a secret',
        ['id:secret'],
      ),
      ...jwtFields,
      ...carrier,
    })
    .refine(hasName, NAME_MISSING)
    .meta({ description: 'A JWT that is signed here, with the secret `key`, and `key_id`' }),
  z
    .strictObject({
      type: z.literal('session'),
      login: documented(
        z
          .strictObject({
            method: documented(z.enum(['POST', 'GET', 'PUT']).default('POST'))('Method of the login', ['PUT']),
            path: path.meta({ description: 'Below base_url, without the version prefix', examples: ['/auth/login'] }),
            headers: documented(z.record(authHeaderName, templateSchema(['username', 'password', 'key'])).default({}))(
              'Its headers, with {username}, {password} and {key} in their texts',
              [{ 'X-Key': '{key}' }],
            ),
            body: documented(z.record(z.string(), z.unknown()).optional())(
              'JSON with {username}, {password} and {key} in its texts',
              [{ email: '{username}', password: '{password}' }],
            ),
            form: documented(z.record(z.string(), templateSchema(['username', 'password', 'key'])).optional())(
              'Fields of a form in place of a JSON body',
              [{ user: '{username}', pass: '{password}' }],
            ),
          })
          .refine(({ body, form }) => body === undefined || form === undefined, 'expected a body or a form, got both'),
      )('The request that logs in', [{ path: '/auth/login', body: { email: '{username}', password: '{password}' } }]),
      token: documented(z.string().min(1))(
        'Where the response has the token: a path in its body, header:<name> or cookie:<name>',
        ['data.access_token', 'cookie:sid'],
      ),
      expires: documented(
        z
          .strictObject({
            field: documented(z.string().min(1))('Path in the body of the response', ['data.expires']),
            unit: documented(z.enum(['s', 'ms', 'epoch']).default('s'))(
              'Seconds, milliseconds, or the time when it expires',
              ['ms'],
            ),
          })
          .optional(),
      )('Where the response has its lifetime', [{ field: 'data.expires', unit: 'ms' }]),
      lifetime: duration.prefault('1h').meta({ description: 'Its lifetime if the response does not say' }),
      ...carrier,
      in: z.enum(['header', 'query', 'cookie']).default('header').meta({ description: 'Where the token is sent' }),
    })
    .refine(hasName, NAME_MISSING)
    .meta({ description: 'Logs in by a request, and again when the session has ended' }),
] as const;

const schemeSchema = z.discriminatedUnion('type', SCHEMES);

/** How a service authenticates requests, without any secret. With several schemes the settings choose one. */
export const profileAuthSchema = documented(
  z.union([schemeSchema, z.array(schemeSchema).min(1)]).transform((given) => [given].flat()),
)('How requests are authenticated: one scheme or a list. Secrets are in the settings', [
  { type: 'api_key', in: 'query', name: 'key' },
  { type: 'jwt', key_format: 'id:secret', key_encoding: 'hex', header: { kid: '{key_id}' }, prefix: 'Ghost' },
  [{ type: 'bearer' }, { type: 'basic' }],
]);

type AuthScheme = z.output<typeof schemeSchema>;
export type SchemeType = AuthScheme['type'];
type Schemes = { [T in SchemeType]: Extract<AuthScheme, { type: T }> };
export type SchemeOf<T extends SchemeType> = Schemes[T];
export type Grant = (typeof GRANTS)[number];
/** The location of the credential in a request. */
export interface Carrier {
  in: 'header' | 'query' | 'cookie';
  name?: string | undefined;
  prefix?: string | undefined;
}

/** A credential that is valid in a header. The line break at the end of a secret file is not. */
const secret = z.string().regex(/^[\x21-\x7e]+$/, {
  // The value itself must never appear in a message.
  error: 'expected a secret of printable characters without spaces or line breaks',
});

/** A secret that is encoded before it is sent. */
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
export const authSecretsSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.literal('api_key'), key: secret }),
  z.strictObject({
    type: z.literal('headers'),
    headers: documented(
      z
        .record(
          authHeaderName,
          z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, {
            error: 'expected a secret of printable characters without line breaks',
          }),
        )
        .refine((headers) => Object.keys(headers).length > 0, 'expected at least one header'),
    )('The secret headers by name', [{ 'X-App-Id': 'blog', 'X-App-Key': '${CONTENT_APP_KEY}' }]),
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
      description: 'First refresh token; later ones are stored in the warehouse',
      examples: ['${CONTENT_REFRESH_TOKEN}'],
    }),
    ...OPTIONAL,
    key_id: secret.optional().meta(keyId),
    scope: z.string().min(1).optional(),
    /** URL of the token endpoint; by default `token_url`, or `token_path` below the base URL, of the profile. */
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

export type AuthSettings = z.output<typeof authSecretsSchema>;
type Secrets = { [T in SchemeType]: Extract<AuthSettings, { type: T }> };

/** A scheme with the secrets for it. */
export interface SchemeWithSecrets<T extends SchemeType = SchemeType> {
  type: T;
  scheme: SchemeOf<T>;
  secrets: Secrets[T];
}

/**
 * Returns the scheme of the profile for these secrets; null if none has their type. A profile without `auth` allows every
 * type that needs no further fields, such as `bearer`.
 */
export function matchSecrets(
  schemes: readonly AuthScheme[] | undefined,
  secrets: AuthSettings,
): SchemeWithSecrets | null {
  const { data: defaultScheme } = schemeSchema.safeParse({ type: secrets.type });
  return selectScheme(secrets.type, secrets, schemes ?? (defaultScheme === undefined ? [] : [defaultScheme]));
}

function selectScheme<T extends SchemeType>(
  type: T,
  secrets: Secrets[T],
  schemes: readonly AuthScheme[],
): SchemeWithSecrets<T> | null {
  const scheme = schemes.find((one): one is SchemeOf<T> => one.type === type);
  return scheme === undefined ? null : { type, scheme, secrets };
}

/** The fields of `auth` that are no secrets. */
export const PUBLIC_FIELDS: ReadonlySet<unknown> = new Set('type client_id key_id username scope token_url'.split(' '));

/** Returns all secrets in `auth` of the settings. */
export function secretsOf(auth: AuthSettings): string[] {
  if (auth.type === 'headers') return Object.values(auth.headers);
  return Object.entries(auth).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'string' && !PUBLIC_FIELDS.has(name) ? [value] : [],
  );
}

/**
 * Identifies the caller at the service, so that a change of the caller is noticed. `caller` is '' without a credential.
 * `rights`: further values on which the readable records depend, such as the OAuth scope.
 */
export function identityOf(auth: AuthSettings): { caller: string; rights: readonly string[] } {
  if (auth.type === 'oauth') {
    const { client_id: id, username: user, key_id: key, scope = '' } = auth;
    const named = [id, user, key].filter((text) => text !== undefined);
    // A client without a name is identified by its secret.
    const caller = named.length === 0 ? secretsOf(auth).join('\n') : named.join('\n');
    return { caller, rights: [scope] };
  }
  // A user is identified by the name, because the password may change.
  const user = auth.type === 'basic' || auth.type === 'session' ? auth.username : undefined;
  return { caller: user ?? secretsOf(auth).join('\n'), rights: [] };
}
