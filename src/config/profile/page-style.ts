/**
 * The field `page` of a resource: how its listing is cut into pages, such as by number or by a cursor, and what shows that
 * a page is the last one.
 */
import { z } from 'zod';
import { bodyPath, documented, requestPlace } from './basic-fields.ts';
import { type AnswerRule, answerRuleFields } from './request-fields.ts';

const ENDS = 'How the listing ends, if neither a total, an empty page nor a missing next page shows it.';

const byStatus = {
  status: documented(z.array(answerRuleFields.status.element).default([]))(
    'Statuses of pages past the end. Without `body`, they show the end only after a shorter page.',
    [[400], [404, 416]],
  ),
  body: answerRuleFields.body.meta({
    description: 'What the body of that response contains.',
    examples: [{ path: 'code', contains: 'invalid_page_number' }],
  }),
};

const shortPage = documented(z.boolean().default(false))(
  'True if a page with fewer records than requested is the last, once a page was full.',
  [true],
);

/** For pages by number. */
const numberedEnd = documented(
  z
    .strictObject({
      ...byStatus,
      short_page: shortPage,
      repeated_page: documented(z.boolean().default(false))('True if the last page is repeated past the end.', [true]),
    })
    .nullable()
    .default(null),
)(ENDS, [{ status: [400], body: { path: 'code', contains: 'invalid_page_number' } }, { repeated_page: true }]);

const followed = {
  ...byStatus,
  unchanged_cursor: documented(z.boolean().default(false))(
    'True if the last page names its own cursor as the next one. An empty or shorter page with it is the end anyway.',
    [true],
  ),
};

/** For pages that link to the next one. */
const followedEnd = documented(z.strictObject(followed).nullable().default(null))(ENDS, [{ unchanged_cursor: true }]);

/** For pages by a cursor. */
const cursorEnd = documented(
  z
    .strictObject({
      ...followed,
      cursor: documented(z.array(z.union([z.string(), z.int()])).default([]))(
        'Cursor values that mean that no page follows, besides null, false and empty.',
        [[0], [-1, 'END']],
      ),
    })
    .nullable()
    .default(null),
)(ENDS, [{ unchanged_cursor: true }, { cursor: [0] }]);

/** For pages after the last record of the previous one. */
const keysetEnd = documented(
  z
    .strictObject({ ...byStatus, short_page: shortPage })
    .nullable()
    .default(null),
)(ENDS, [{ short_page: true }]);

/** Returns the declared ends of a listing, with defaults. */
export function declaredEnd(page: { style: string; end?: Partial<DeclaredEnd> | null }): DeclaredEnd {
  return { ...NO_END, ...page.end };
}

const NO_END: AnswerRule & { repeated_page: boolean; unchanged_cursor: boolean; short_page: boolean } = {
  status: [],
  body: null,
  repeated_page: false,
  unchanged_cursor: false,
  short_page: false,
};

/** How a listing of any page style ends. */
type DeclaredEnd = typeof NO_END;

/** Location of a value in an answer: a path in its body, or `header:<name>`. */
const answerLocation = z
  .string()
  .min(1)
  .refine((text) => text.startsWith('header:') || bodyPath.safeParse(text).success, {
    error: 'expected a path such as meta.total or items[0], or header: and the name of a header',
  })
  .meta({
    description: 'Location in a response: a path in its body, or `header:` and a name.',
    examples: ['meta.pagination.total', 'header:X-WP-Total'],
  });

const sized = {
  size_param: documented(requestPlace.nullable().default('limit'))(
    'Where a request takes the page size; null if there is no such parameter.',
    ['per_page', 'body:page.size', null],
  ),
  size: documented(z.int().min(1).max(100_000).default(100))('Records requested per page.', [50]),
  total: documented(answerLocation.nullable().optional())(
    'Location of the number of all records: a scan with fewer is incomplete. Null: totals at usual places count something else.',
    ['meta.pagination.total', 'header:X-WP-Total', null],
  ),
  ignored_totals: documented(z.array(answerLocation).default([]))(
    'Locations of totals that count something else, such as drafts.',
    [['meta.total_count']],
  ),
  pages: documented(answerLocation.nullable().optional())(
    'Location of the number of all pages. Null: page counts at usual places mean something else.',
    ['meta.pagination.pageCount', 'header:X-WP-TotalPages'],
  ),
  count: documented(bodyPath.nullable().default(null))(
    'Location of the number of records of this page; a page with fewer is rejected.',
    ['meta.count'],
  ),
};

const absentIsEnd = documented(z.boolean().default(false))(
  'True if the last page has no next-page field; otherwise a full page without one is an error.',
  [true],
);

const hasMore = documented(answerLocation.nullable().default(null))(
  'Location of a boolean that is true if another page follows.',
  ['has_more'],
);

const cursorParam = requestPlace.nullable().meta({
  description: 'Where a request takes the cursor; null if only templates have `{cursor}`.',
  examples: ['cursor', 'body:after', null],
});

const firstCursor = documented(z.union([z.string(), z.int()]).nullable().default(null))(
  'Cursor of the first request; null for none.',
  ['*', 0],
);

/** How a listing is paginated. A new style also needs a function in `pagination/page-styles/`. */
export const pageSchema = z.discriminatedUnion('style', [
  z.strictObject({
    style: documented(z.literal('cursor'))(
      '`cursor`, `page` (by number), `offset`, `link` (the header), `next-url`, `keyset` (after the last record) or `single`.',
      ['cursor'],
    ),
    cursor_param: cursorParam.default('cursor'),
    first_cursor: firstCursor,
    next_cursor: documented(answerLocation.default('next_cursor'))(
      'Location of the next cursor: null, false or empty on the last page.',
      ['meta.next_cursor', 'header:X-Next-Cursor'],
    ),
    has_more: hasMore,
    absent_is_end: absentIsEnd,
    end: cursorEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('page'),
    page_param: requestPlace
      .default('page')
      .meta({ description: 'Where a request takes the page number.', examples: ['pagination[page]'] }),
    first: documented(z.int().min(0).default(1))(
      'Number of the first page. Without a total, a full scan also requests the page before it.',
      [0],
    ),
    next_page: documented(answerLocation.nullable().default(null))(
      'Location of the next page number: null, false or absent on the last page.',
      ['meta.pagination.next', 'header:X-Next-Page'],
    ),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('offset'),
    offset_param: requestPlace.default('offset').meta({
      description: 'Where a request takes the offset.',
      examples: ['start', 'body:from'],
    }),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({ style: z.literal('link'), end: followedEnd, ...sized }),
  z.strictObject({
    style: z.literal('next-url'),
    next_url: answerLocation
      .default('next')
      .meta({ description: 'Location of the URL of the next page: null on the last page.', examples: ['links.next'] }),
    absent_is_end: absentIsEnd,
    end: followedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('keyset'),
    cursor_field: documented(bodyPath.min(1).default('id'))(
      'Field by which the listing is sorted; its last value is the next cursor. If it is not the `id`, a total is needed too.',
      ['id'],
    ),
    cursor_param: cursorParam.default('since_id'),
    first_cursor: firstCursor,
    has_more: hasMore,
    end: keysetEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('single'),
    ...sized,
    size: documented(z.int().min(1).max(100_000).default(100_000))(
      'The list is expected to have fewer records.',
      [1000],
    ),
    size_param: documented(z.null().default(null))('No paging.', [null]),
    pages: documented(z.null().optional())('No paging.', [null]),
  }),
]);

export type PageProfile = z.output<typeof pageSchema>;
