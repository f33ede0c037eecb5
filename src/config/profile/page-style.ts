import { z } from 'zod';
import { answerRuleFields, type AnswerRule } from './http-fields.ts';
import { documented, bodyPath, requestPlace } from './basic-fields.ts';

const ENDS = 'How the listing ends, if neither a total, an empty page nor a missing next page shows it.';

const byStatus = {
  status: documented(z.array(answerRuleFields.status.element).default([]))(
    'Statuses by which pages past the end are refused. Alone they prove the end only behind a page that is shorter than the others; with `body` in any case.',
    [[400], [404, 416]],
  ),
  body: answerRuleFields.body.meta({
    description: 'What the body of that refusal says, so that no other refusal is taken for the end.',
    examples: [{ path: 'code', contains: 'invalid_page_number' }],
  }),
};

const shortPage = documented(z.boolean().default(false))(
  'True if a page of fewer records than were asked for is the last one. It is believed once a page held as many as were asked for.',
  [true],
);

/** For pages by number. */
const numberedEnd = documented(
  z
    .strictObject({
      ...byStatus,
      short_page: shortPage,
      repeated_page: documented(z.boolean().default(false))(
        'True if the last page comes again where a page past the end is asked for.',
        [true],
      ),
    })
    .nullable()
    .default(null),
)(ENDS, [{ status: [400], body: { path: 'code', contains: 'invalid_page_number' } }, { repeated_page: true }]);

const followed = {
  ...byStatus,
  unchanged_cursor: documented(z.boolean().default(false))(
    'True if the last page names itself as the next one: its cursor is the one that was sent. On a page that is empty, or shorter than others before it, that is the end without this setting too.',
    [true],
  ),
};

/** For pages that name the one after them. */
const followedEnd = documented(z.strictObject(followed).nullable().default(null))(ENDS, [{ unchanged_cursor: true }]);

/** For pages by a cursor. */
const cursorEnd = documented(
  z
    .strictObject({
      ...followed,
      cursor: documented(z.array(z.union([z.string(), z.int()])).default([]))(
        'Values of the cursor that say that no page follows, besides null, false and the empty string. A number also stands for the same number as text.',
        [[0], [-1, 'END']],
      ),
    })
    .nullable()
    .default(null),
)(ENDS, [{ unchanged_cursor: true }, { cursor: [0] }]);

/** For pages behind the last record of the one before. */
const keysetEnd = documented(
  z
    .strictObject({ ...byStatus, short_page: shortPage })
    .nullable()
    .default(null),
)(ENDS, [{ short_page: true }]);

/** All that the profile says of a listing's end. */
export function declaredEnd(page: { style: string; end?: Partial<DeclaredEnd> | null }): DeclaredEnd {
  return { ...NO_END, ...page.end };
}

/** All that a listing of any style may be declared to end by. */
interface DeclaredEnd {
  status: readonly number[];
  body: AnswerRule['body'];
  repeated_page: boolean;
  unchanged_cursor: boolean;
  short_page: boolean;
}

const NO_END: DeclaredEnd = {
  status: [],
  body: null,
  repeated_page: false,
  unchanged_cursor: false,
  short_page: false,
};

/** Location of a value in an answer: a path in its body, or `header:<name>`. */
const answerPlace = z
  .string()
  .min(1)
  .refine((text) => text.startsWith('header:') || bodyPath.safeParse(text).success, {
    error: 'expected a path such as meta.total or items[0], or header: and the name of a header',
  })
  .meta({
    description: 'Where an answer tells it: a dotted path in its body, or `header:` and the name of a header.',
    examples: ['meta.pagination.total', 'header:X-WP-Total'],
  });

const sized = {
  size_param: documented(requestPlace.nullable().default('limit'))(
    'Where a request asks for a page size; null if the service has no such parameter.',
    ['per_page', 'body:page.size', null],
  ),
  size: documented(z.int().min(1).max(100_000).default(100))('Records asked for per page.', [50]),
  total: documented(answerPlace.nullable().optional())(
    'Location of the number of all records: a scan that finds fewer is incomplete. Without it, totals at their usual places count too, but end no scan; null if those count something else than the listing.',
    ['meta.pagination.total', 'header:X-WP-Total', null],
  ),
  ignored_totals: documented(z.array(answerPlace).default([]))(
    'Locations of totals that count something else than this listing, such as drafts or all collections.',
    [['meta.total_count']],
  ),
  pages: documented(answerPlace.nullable().optional())(
    'Location of the number of all pages, by which the last one is known to be the last; null if the usual places for it count something else.',
    ['meta.pagination.pageCount', 'header:X-WP-TotalPages'],
  ),
  count: documented(bodyPath.nullable().default(null))(
    'Path of the number of records of this page; a page that holds fewer is rejected.',
    ['meta.count'],
  ),
};

const absentIsEnd = documented(z.boolean().default(false))(
  'True if the service leaves out to name a next page on the last one; else a full page that names none is an error.',
  [true],
);

const hasMore = documented(answerPlace.nullable().default(null))(
  'Location of a boolean that is true if another page follows; null if nothing of the kind is there.',
  ['has_more'],
);

const cursorParam = requestPlace.nullable().meta({
  description: 'Where a request takes the cursor; null if it only stands in templates, as `{cursor}`.',
  examples: ['cursor', 'body:after', null],
});

const firstCursor = documented(z.union([z.string(), z.int()]).nullable().default(null))(
  'Cursor of the first request; null if that goes without one.',
  ['*', 0],
);

/** How a listing is cut into pages. A new style is a new entry here and a function in `extract/page-styles/`. */
export const pageSchema = z.discriminatedUnion('style', [
  z.strictObject({
    style: documented(z.literal('cursor'))(
      'How the next page is asked for: `cursor`, `page` (by number), `offset`, `link` (the header), `next-url`, `keyset` (behind the last record) or `single`.',
      ['cursor'],
    ),
    cursor_param: cursorParam.default('cursor'),
    first_cursor: firstCursor,
    next_cursor: documented(answerPlace.default('next_cursor'))(
      'Location of the cursor of the next page: null, false or empty on the last one (other values: `end.cursor`).',
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
      .meta({ description: 'Where a request takes the number of a page.', examples: ['pagination[page]'] }),
    first: documented(z.int().min(0).default(1))(
      'Number of the first page. Where no total shows the whole, a full walk asks once for the page before it as well: it must hold no other records.',
      [0],
    ),
    next_page: documented(answerPlace.nullable().default(null))(
      'Location of the number of the next page: null, false or absent on the last one. Where the page itself is empty, a number there is not believed.',
      ['meta.pagination.next', 'header:X-Next-Page'],
    ),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('offset'),
    offset_param: requestPlace.default('offset').meta({
      description: 'Where a request takes the number of records that lie before the page.',
      examples: ['start', 'body:from'],
    }),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({ style: z.literal('link'), end: followedEnd, ...sized }),
  z.strictObject({
    style: z.literal('next-url'),
    next_url: answerPlace
      .default('next')
      .meta({ description: 'Location of the URL of the next page: null on the last one.', examples: ['links.next'] }),
    absent_is_end: absentIsEnd,
    end: followedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('keyset'),
    cursor_field: documented(bodyPath.min(1).default('id'))(
      'Field of a record by which the listing is sorted: its value in the last record is the cursor of the next page. If it is not the `id`, a total is needed as well, since records that share a value may be skipped.',
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
      'Records that the list is expected to stay below.',
      [1000],
    ),
    size_param: documented(z.null().default(null))('There is none: one answer is the whole list.', [null]),
    pages: documented(z.null().optional())('There is none: one answer is the whole list.', [null]),
  }),
]);

export type PageProfile = z.output<typeof pageSchema>;
