import { z } from 'zod';
import { authHeaderName, carrier, isNamed, UNNAMED } from './auth-carrier.ts';
import { duration } from './duration-and-size.ts';
import { templateSchema } from './template.ts';

const path = z.string().regex(/^\/[^?#\s]*$/, 'expected a path that begins with /, without ? and #');

const jwtFields = {
  algorithm: z
    .enum(['HS256', 'RS256', 'ES256'])
    .default('HS256')
    .meta({ description: 'How a JWT is signed', examples: ['ES256'] }),
  key_encoding: z
    .enum(['utf8', 'hex', 'base64', 'pem'])
    .optional()
    .meta({
      description: 'How the key is written; utf8 for HS256 if absent, else pem',
      examples: ['hex'],
    }),
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
  lifetime: duration.prefault('5m').meta({
    description: 'From iat to exp',
    examples: ['10m'],
  }),
};

const GRANTS = ['client_credentials', 'refresh_token', 'password', 'jwt_bearer'] as const;

const SCHEMES = [
  z
    .strictObject({ type: z.literal('none').meta({ description: 'The scheme', examples: ['none'] }) })
    .meta({ description: 'Nothing is sent' }),
  z
    .strictObject({ type: z.literal('api_key'), ...carrier })
    .refine(isNamed, UNNAMED)
    .meta({ description: 'One secret, `key`' }),
  z
    .strictObject({
      type: z.literal('headers'),
      names: z
        .array(authHeaderName)
        .min(1)
        .optional()
        .meta({
          description: 'Names of the secret headers; those in the settings if absent',
          examples: [['X-App-Id', 'X-App-Key']],
        }),
    })
    .meta({ description: 'Several secret headers, `headers`' }),
  z.strictObject({ type: z.literal('basic') }).meta({ description: 'Basic authentication: `username`, `password`' }),
  z.strictObject({ type: z.literal('bearer') }).meta({ description: 'A token that does not change, `token`' }),
  z
    .strictObject({
      type: z.literal('oauth'),
      grant: z
        .enum(GRANTS)
        .default('client_credentials')
        .meta({ description: 'How a token is asked for', examples: ['refresh_token'] }),
      token_url: z
        .url({ protocol: /^https?$/ })
        .optional()
        .meta({
          description: 'Whole URL of the token endpoint; that of the settings holds before it',
          examples: ['https://login.example.com/oauth/token'],
        }),
      token_path: path.optional().meta({
        description: 'Its path below base_url, without the version prefix; /oauth/token if absent',
        examples: ['/oauth2/token'],
      }),
      client_auth: z
        .enum(['body', 'basic', 'none'])
        .optional()
        .meta({
          description: 'How the client proves itself to the token endpoint; none for a client without a secret',
          examples: ['basic'],
        }),
      parameters: z
        .record(z.string(), z.string())
        .default({})
        .meta({
          description: 'Further parameters of a token request that are no secrets',
          examples: [{ audience: 'https://api.example.com' }],
        }),
      ...jwtFields,
      ...carrier,
    })
    .refine(isNamed, UNNAMED)
    .meta({ description: 'OAuth 2.0; a refresh token that is replaced is kept in the warehouse' }),
  z
    .strictObject({
      type: z.literal('jwt'),
      key_format: z
        .enum(['secret', 'id:secret'])
        .default('secret')
        .meta({
          description: 'Whether the secret `key` is one, or an id and a secret with a colon between them',
          examples: ['id:secret'],
        }),
      reuse: z
        .boolean()
        .default(true)
        .meta({ description: 'One JWT for its lifetime; false: one per request', examples: [false] }),
      ...jwtFields,
      ...carrier,
    })
    .refine(isNamed, UNNAMED)
    .meta({ description: 'A JWT that is signed here, with the secret `key`, and `key_id`' }),
  z
    .strictObject({
      type: z.literal('session'),
      login: z
        .strictObject({
          method: z
            .enum(['POST', 'GET', 'PUT'])
            .default('POST')
            .meta({ description: 'Method of the login', examples: ['PUT'] }),
          path: path.meta({ description: 'Below base_url, without the version prefix', examples: ['/auth/login'] }),
          headers: z
            .record(authHeaderName, templateSchema(['username', 'password', 'key']))
            .default({})
            .meta({
              description: 'Its headers, with {username}, {password} and {key} in their texts',
              examples: [{ 'X-Key': '{key}' }],
            }),
          body: z
            .record(z.string(), z.unknown())
            .optional()
            .meta({
              description: 'JSON with {username}, {password} and {key} in its texts',
              examples: [{ email: '{username}', password: '{password}' }],
            }),
          form: z
            .record(z.string(), templateSchema(['username', 'password', 'key']))
            .optional()
            .meta({
              description: 'Fields of a form in place of a JSON body',
              examples: [{ user: '{username}', pass: '{password}' }],
            }),
        })
        .refine(({ body, form }) => body === undefined || form === undefined, 'expected a body or a form, got both')
        .meta({
          description: 'The request that logs in',
          examples: [{ path: '/auth/login', body: { email: '{username}', password: '{password}' } }],
        }),
      token: z
        .string()
        .min(1)
        .meta({
          description: 'Where the answer has the token: a dotted path in its body, header:<name> or cookie:<name>',
          examples: ['data.access_token', 'cookie:sid'],
        }),
      expires: z
        .strictObject({
          field: z
            .string()
            .min(1)
            .meta({ description: 'Dotted path in the body of the answer', examples: ['data.expires'] }),
          unit: z
            .enum(['s', 'ms', 'epoch'])
            .default('s')
            .meta({
              description:
                'Seconds, milliseconds, or the moment of its end (seconds or milliseconds since 1970, or a text)',
              examples: ['ms'],
            }),
        })
        .optional()
        .meta({ description: 'Where the answer has its lifetime', examples: [{ field: 'data.expires', unit: 'ms' }] }),
      lifetime: duration.prefault('1h').meta({ description: 'Its lifetime if the answer does not tell it' }),
      ...carrier,
      in: z.enum(['header', 'query', 'cookie']).default('header').meta({ description: 'Where the token is sent' }),
    })
    .refine(isNamed, UNNAMED)
    .meta({ description: 'Logs in by a request, and again when the session has ended' }),
] as const;

const schemeSchema = z.discriminatedUnion('type', SCHEMES);

/** How a service wants to be asked who is asking; without any secret. Several schemes where the settings choose. */
export const authSchemeSchema = z
  .union([schemeSchema, z.array(schemeSchema).min(1)])
  .transform((given) => [given].flat())
  .meta({
    description:
      'How requests are authenticated; the secrets stand in the settings (`sources.<name>.auth`), whose `type` chooses where there are several',
    examples: [
      { type: 'api_key', in: 'query', name: 'key' },
      { type: 'jwt', key_format: 'id:secret', key_encoding: 'hex', header: { kid: '{key_id}' }, prefix: 'Ghost' },
      [{ type: 'bearer' }, { type: 'basic' }],
    ],
  });

export type AuthScheme = z.output<typeof schemeSchema>;
export type SchemeType = AuthScheme['type'];
type Schemes = { [T in SchemeType]: Extract<AuthScheme, { type: T }> };
export type SchemeOf<T extends SchemeType> = Schemes[T];
export type Grant = (typeof GRANTS)[number];
/** Where a credential stands. */
export interface Carrier {
  in: 'header' | 'query' | 'cookie';
  name?: string | undefined;
  prefix?: string | undefined;
}

/** The scheme with its defaults; null for one that has fields without any. */
export function usualScheme(type: SchemeType): AuthScheme | null {
  return schemeSchema.safeParse({ type }).data ?? null;
}
