import { z } from 'zod';
import { bodyPath, recordsPath } from './body-path.ts';

/** Statuses that never say that a record is gone: they are about the caller, or pass. */
const NEVER_GONE: ReadonlySet<number> = new Set([401, 407, 408, 409, 421, 423, 425, 429]);

/** Answers that mean that what was asked for is gone. */
export const goneSchema = z
  .strictObject({
    status: z
      .array(
        z
          .int()
          .refine((status) => (status >= 200 && status < 300) || (status >= 400 && status < 500), {
            error: 'expected statuses from 200 to 299 or from 400 to 499',
          })
          .refine((status) => !NEVER_GONE.has(status), {
            error: ({ input }) => `${String(input)} never says that a record is gone`,
          }),
      )
      .min(1)
      .meta({ description: 'Statuses, one of which such an answer has.', examples: [[403]] }),
    body: z
      .strictObject({
        path: bodyPath.meta({ description: 'That place.', examples: ['errors'] }),
        contains: z
          .string()
          .min(1)
          .optional()
          .meta({ description: 'That text.', examples: ['FORBIDDEN'] }),
      })
      .optional()
      .meta({
        description:
          'A place in the JSON body that must be there and not null; with `contains`, as text it must contain this (case does not count).',
        examples: [{ path: 'errors', contains: 'FORBIDDEN' }],
      }),
  })
  .refine(({ status, body }) => body !== undefined || status.every((each) => each >= 300), {
    path: ['body'],
    error: 'expected a place in the body, because a status of success alone says that the record is there',
  });

/** How one record is read alone: the fields of a resource. */
export const itemFields = {
  /** Path of one record, with `{id}`; null if a record cannot be read alone. */
  item: z
    .string()
    .includes('{id}')
    .regex(/^[^?#]*$/, 'expected a path without ? or #: query parameters of a single record stand in item_query')
    .nullable()
    .default(null)
    .meta({ examples: ['/posts/{id}'] }),
  /** Query parameters of that request: `inherit` for those of the listing (`query`), or others. */
  item_query: z
    .union([z.literal('inherit'), z.record(z.string(), z.string())])
    .default('inherit')
    .meta({ examples: [{ expand: 'tags' }, 'inherit'] }),
  item_record: recordsPath.default('').meta({
    description:
      'Path of the record in the body of that answer; the empty string if the body is the record. `rows[*].doc` and `pages.*` are paths to the one entry of an array or a map.',
    examples: ['data', 'posts[0]', 'query.pages.*'],
  }),
  gone: goneSchema
    .nullable()
    .default(null)
    .meta({
      description:
        'Answers to a request for a single record that mean that it is gone, besides 404 and 410. They mean nothing in a listing. As a service may answer so to a caller that has lost its rights, another record must be found in the same round before one is deleted.',
      examples: [{ status: [403] }, { status: [403], body: { path: 'errors', contains: 'FORBIDDEN' } }],
    }),
};

export type GoneRule = z.output<typeof goneSchema>;
