import { z } from 'zod';
import { recordsPath } from './body-path.ts';

/** How one record is read alone: the fields of a resource. */
export const itemFields = {
  /** Path of one record, with `{id}`; null if a record cannot be read alone. */
  item: z
    .string()
    .includes('{id}')
    .regex(/^[^?#]*$/, 'expected a path without ? or #: query parameters of a single record stand in item_query')
    .nullable()
    .default(null),
  /** Query parameters of that request: `inherit` for those of the listing (`query`), or others. */
  item_query: z.union([z.literal('inherit'), z.record(z.string(), z.string())]).default('inherit'),
  item_record: recordsPath.default('').meta({
    description:
      'Path of the record in the body of that answer; the empty string if the body is the record. `rows[*].doc` and `pages.*` are paths to the one entry of an array or a map.',
    examples: ['data', 'posts[0]', 'query.pages.*'],
  }),
};
