import { z } from 'zod';
import { bodyPath } from './page-style.ts';

/** How records are found in an answer and told apart: the fields of a resource. */
export const recordFields = {
  /** Path of the array of records in a page's body; the empty string if the body is the array. */
  records: bodyPath.default('data'),
  /** The field that identifies a record, or several that do so together: of those some may be null or empty. */
  id: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).default('id'),
};
