import { z } from 'zod';
import { bodyPath } from './page-style.ts';

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
  /** Path of the record in the body of that answer; the empty string if the body is the record. */
  item_record: bodyPath.default(''),
};
