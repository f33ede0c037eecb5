import { z } from 'zod';

/** How a listing is requested: the fields of a resource. */
export const requestFields = {
  /** Collection path below the version prefix. */
  path: z.string().regex(/^\//, 'expected a path that begins with /'),
  /** Further query parameters of every listing request. */
  query: z.record(z.string(), z.string()).default({}),
};
