import { z } from 'zod';
import { answerRuleFields, type AnswerRule } from './outcome-rule.ts';

const ENDS = 'How the listing ends, if neither a total, an empty page nor a missing next page shows it.';

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

/** For pages by number. */
export const numberedEnd = z
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
    description: ENDS,
    examples: [{ status: [400], body: { path: 'code', contains: 'invalid_page_number' } }, { repeated_page: true }],
  });

const followed = {
  ...byStatus,
  unchanged_cursor: z
    .boolean()
    .default(false)
    .meta({
      description:
        'True if the last page names itself as the next one: its cursor is the one that was sent. On a page that is empty, or shorter than others before it, that is the end without this setting too.',
      examples: [true],
    }),
};

/** For pages that name the one after them. */
export const followedEnd = z
  .strictObject(followed)
  .nullable()
  .default(null)
  .meta({
    description: ENDS,
    examples: [{ unchanged_cursor: true }],
  });

/** For pages by a cursor. */
export const cursorEnd = z
  .strictObject({
    ...followed,
    cursor: z
      .array(z.union([z.string(), z.int()]))
      .default([])
      .meta({
        description:
          'Values of the cursor that say that no page follows, besides null, false and the empty string. A number also stands for the same number as text.',
        examples: [[0], [-1, 'END']],
      }),
  })
  .nullable()
  .default(null)
  .meta({
    description: ENDS,
    examples: [{ unchanged_cursor: true }, { cursor: [0] }],
  });

/** For pages behind the last record of the one before. */
export const keysetEnd = z
  .strictObject({ ...byStatus, short_page: shortPage })
  .nullable()
  .default(null)
  .meta({
    description: ENDS,
    examples: [{ short_page: true }],
  });

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
