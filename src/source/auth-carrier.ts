import { z } from 'zod';

/** Headers of the connection, which are nobody's to set. */
const CONNECTION = /^(?:host|connection|content-length|transfer-encoding)$/i;

/** A header that a credential may stand in. */
export const authHeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~\w-]+$/, 'expected the name of a header')
  .refine((name) => !CONNECTION.test(name), 'expected a header that is not one of the connection itself');

/** Where the credential stands in a request. */
export const carrier = {
  in: z
    .enum(['header', 'query'])
    .default('header')
    .meta({
      description: 'Where the credential stands; in the query it is added last, and is never stored or logged',
      examples: ['query'],
    }),
  name: z
    .string()
    .regex(/^[!#$%&'*+.^_`|~\w[\]-]+$/, 'expected the name of a header or query parameter')
    .refine((name) => !CONNECTION.test(name), 'expected a header that is not one of the connection itself')
    .optional()
    .meta({ description: 'Name of that header or parameter; Authorization if absent', examples: ['X-Api-Key'] }),
  prefix: z
    .string()
    .regex(/^[\x20-\x7e]*$/, 'expected printable ASCII')
    .optional()
    .meta({
      description:
        'Text before the credential; a blank follows a word. Bearer in the header Authorization if absent, else nothing',
      examples: ['Ghost', 'Token token='],
    }),
};

/** A query parameter has no usual name. */
export const isNamed = (carried: { in: string; name?: string | undefined }): boolean =>
  carried.in !== 'query' || carried.name !== undefined;
/** For the field of such a scheme that has none. */
export const UNNAMED = { path: ['name'], error: 'expected the name of the query parameter' };
