import { z } from 'zod';
import { bodyPath } from './body-path.ts';
import { requestPlace } from './request-place.ts';

/** Location of a number in an answer: a path in its body, or `header:<name>`. */
const answerPlace = z.string().min(1);

const sized = {
  /** Where a request asks for a page size; null if the service has no such parameter. */
  size_param: requestPlace.nullable().default('limit'),
  /** Records asked for per page. */
  size: z.int().min(1).max(100_000).default(100),
  /** Location of the number of all records; a walk that finds fewer is incomplete. */
  total: answerPlace.nullable().default(null),
  /** Location of the number of all pages, by which the last one is known to be the last. */
  pages: answerPlace.nullable().default(null),
  /** Path of the number of records of this page; a page that holds fewer is rejected. */
  count: bodyPath.nullable().default(null),
};

/** True if the service leaves the field out on the last page; else a full page without it is an error. */
const absentIsEnd = z.boolean().default(false);

/** How a listing is cut into pages. A new style is a new entry here and a function in `extract/page-styles/`. */
export const pageSchema = z.discriminatedUnion('style', [
  z.strictObject({
    style: z.literal('cursor'),
    cursor_param: requestPlace.default('cursor'),
    next_cursor: bodyPath.default('next_cursor'),
    /** A boolean in the body that is true if another page follows; null if the cursor alone shows it. */
    has_more: bodyPath.nullable().default(null),
    absent_is_end: absentIsEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('page'),
    page_param: requestPlace.default('page'),
    first: z.int().min(0).default(1),
    ...sized,
  }),
  z.strictObject({
    style: z.literal('offset'),
    offset_param: requestPlace.default('offset'),
    ...sized,
  }),
  z.strictObject({ style: z.literal('link'), ...sized }),
  z.strictObject({
    style: z.literal('next-url'),
    next_url: bodyPath.default('next'),
    absent_is_end: absentIsEnd,
    ...sized,
  }),
]);

export type PageProfile = z.output<typeof pageSchema>;
