import { z } from 'zod';
import { conditionsSchema, deliveryFieldSchema } from './delivery-field.ts';

const METHODS = ['GET', 'POST'] as const;
const KINDS = ['query', 'json', 'header'] as const;

const methods = z
  .union([z.enum(METHODS), z.array(z.enum(METHODS)).min(1).max(2)])
  .transform((given) => (typeof given === 'string' ? [given] : given));

/** The question by which a sender tests a new address, and that is answered by sending a value of it back. */
export const challengeSchema = z
  .strictObject({
    method: methods.meta({ description: 'Method of the question, or both.', examples: ['GET', ['GET', 'POST']] }),
    where: conditionsSchema(KINDS)
      .prefault({})
      .meta({
        description:
          'Values by which a request is known as the question, by their place in its query, body or headers.',
        examples: [{ 'query:hub.mode': 'subscribe' }, { 'json:type': 'url_verification' }],
      }),
    echo: deliveryFieldSchema(KINDS).meta({
      description: 'Place of the value that is sent back.',
      examples: ['query:challenge', 'json:challenge'],
    }),
    field: z
      .string()
      .min(1)
      .max(100)
      .nullable()
      .default(null)
      .meta({
        description: 'Field of the JSON object in which it is sent back. Null: as plain text.',
        examples: ['challenge', 'verification'],
      }),
    token: deliveryFieldSchema(KINDS)
      .nullable()
      .default(null)
      .meta({
        description: 'Place of a token that has to be the secret with the id `verify_token`.',
        examples: ['query:hub.verify_token'],
      }),
    signed: z
      .boolean()
      .default(false)
      .meta({
        description: 'Whether the question is answered only if it is signed as deliveries are.',
        examples: [true],
      }),
  })
  .refine(
    ({ method, where, echo }) =>
      (method.length === 1 && method[0] === 'GET') || echo.from === 'query' || where.length > 0,
    {
      path: ['where'],
      error: 'expected values that tell the question from a delivery, because deliveries come by POST as well',
    },
  );

/** A declared challenge with everything filled in. */
export type EchoChallenge = z.output<typeof challengeSchema>;
