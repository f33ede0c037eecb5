import { z } from 'zod';
import { bodyPath } from './body-path.ts';
import { answerRuleFields, type AnswerRule } from './outcome-rule.ts';
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

/** A boolean in the body that is true if another page follows; null if nothing of the kind is there. */
const hasMore = bodyPath.nullable().default(null);

const cursorParam = requestPlace.nullable().meta({
  description: 'Where a request takes the cursor; null if it only stands in templates, as `{cursor}`.',
  examples: ['cursor', 'body:after', null],
});

const firstCursor = z
  .union([z.string(), z.int()])
  .nullable()
  .default(null)
  .meta({ description: 'Cursor of the first request; null if that goes without one.', examples: ['*', 0] });

const byStatus = {
  status: z
    .array(answerRuleFields.status.element)
    .default([])
    .meta({
      description:
        'Statuses by which pages past the end are refused. Alone they prove the end only behind a page that is shorter than the others; with `body` in any case.',
      examples: [[400], [404, 416]],
    }),
  body: answerRuleFields.body.meta({
    description: 'What the body of that refusal says, so that no other refusal is taken for the end.',
    examples: [{ path: 'code', contains: 'invalid_page_number' }],
  }),
};

const shortPage = z
  .boolean()
  .default(false)
  .meta({
    description:
      'True if a page of fewer records than were asked for is the last one. It is believed once a page held as many as were asked for.',
    examples: [true],
  });

const numberedEnd = z
  .strictObject({
    ...byStatus,
    short_page: shortPage,
    repeated_page: z
      .boolean()
      .default(false)
      .meta({
        description: 'True if the last page comes again where a page past the end is asked for.',
        examples: [true],
      }),
  })
  .nullable()
  .default(null)
  .meta({
    description: 'How the listing ends, if neither a total nor an empty page shows it.',
    examples: [{ status: [400], body: { path: 'code', contains: 'invalid_page_number' } }, { repeated_page: true }],
  });

const followedEnd = z
  .strictObject({
    ...byStatus,
    unchanged_cursor: z
      .boolean()
      .default(false)
      .meta({
        description: 'True if the last page names itself as the next one: its cursor is the one that was sent.',
        examples: [true],
      }),
  })
  .nullable()
  .default(null)
  .meta({
    description: 'How the listing ends, if the last page does not simply leave out to name a next one.',
    examples: [{ unchanged_cursor: true }],
  });

const keysetEnd = z
  .strictObject({ ...byStatus, short_page: shortPage })
  .nullable()
  .default(null)
  .meta({
    description: 'How the listing ends, if not by an empty page or `has_more`.',
    examples: [{ short_page: true }],
  });

/** How a listing is cut into pages. A new style is a new entry here and a function in `extract/page-styles/`. */
export const pageSchema = z.discriminatedUnion('style', [
  z.strictObject({
    style: z.literal('cursor'),
    cursor_param: cursorParam.default('cursor'),
    first_cursor: firstCursor,
    next_cursor: bodyPath.default('next_cursor'),
    has_more: hasMore,
    absent_is_end: absentIsEnd,
    end: followedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('page'),
    page_param: requestPlace.default('page'),
    first: z.int().min(0).default(1),
    next_page: bodyPath
      .nullable()
      .default(null)
      .meta({
        description:
          'Path of the number of the next page: null, false or absent on the last one. Where the page itself is empty, a number there is not believed.',
        examples: ['meta.pagination.next'],
      }),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('offset'),
    offset_param: requestPlace.default('offset'),
    end: numberedEnd,
    ...sized,
  }),
  z.strictObject({ style: z.literal('link'), end: followedEnd, ...sized }),
  z.strictObject({
    style: z.literal('next-url'),
    next_url: bodyPath.default('next'),
    absent_is_end: absentIsEnd,
    end: followedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('keyset'),
    cursor_field: bodyPath
      .min(1)
      .default('id')
      .meta({
        description:
          'Field of a record by which the listing is sorted: its value in the last record is the cursor of the next page. If it is not the `id`, a total is needed as well, since records that share a value may be skipped.',
        examples: ['id'],
      }),
    cursor_param: cursorParam.default('since_id'),
    first_cursor: firstCursor,
    has_more: hasMore,
    end: keysetEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('continuation'),
    continuation: bodyPath
      .min(1)
      .default('continue')
      .meta({
        description:
          'Path of an object whose entries are added to the parameters of the first request; the page after it is asked for by all of them together.',
        examples: ['continue'],
      }),
    continuation_param: requestPlace
      .nullable()
      .default(null)
      .meta({
        description: 'Place in the JSON body below which the entries stand; null if each is a query parameter.',
        examples: ['body:page.continue'],
      }),
    absent_is_end: absentIsEnd,
    end: followedEnd,
    ...sized,
  }),
  z.strictObject({
    style: z.literal('single'),
    ...sized,
    size_param: z
      .null()
      .default(null)
      .meta({ description: 'There is none: one answer is the whole list.', examples: [null] }),
    pages: z
      .null()
      .default(null)
      .meta({ description: 'There is none: one answer is the whole list.', examples: [null] }),
  }),
]);

export type PageProfile = z.output<typeof pageSchema>;

/** How a listing is declared to end; null if nothing is. */
export function declaredEnd(page: PageProfile): DeclaredEnd {
  const declared = page.style === 'single' ? null : page.end;
  return { ...NO_END, ...declared };
}

/** All that a listing of any style may be declared to end by. */
export interface DeclaredEnd {
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
