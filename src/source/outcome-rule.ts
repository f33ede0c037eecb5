import { z } from 'zod';
import { OUTCOMES } from '../model/vocabulary.ts';

/** Conditions on an answer; all that are present must hold. */
export const answerConditions = {
  status: z
    .union([statusPattern(), z.array(statusPattern()).min(1)])
    .optional()
    .meta({ description: '`"404"`, `"5xx"`, or a list of such', examples: ['404', ['409', '5xx']] }),
  header: z
    .strictObject({
      name: z
        .string()
        .min(1)
        .meta({ description: 'a header that must be there', examples: ['x-cache'] }),
      contains: z
        .string()
        .optional()
        .meta({ description: 'text that its value must contain, in any case', examples: ['stale'] }),
    })
    .optional()
    .meta({ description: 'a condition on a header', examples: [{ name: 'x-cache', contains: 'stale' }] }),
  body: z
    .strictObject({
      path: z
        .string()
        .meta({ description: 'a place in the body that must be there and not null', examples: ['error'] }),
      contains: z
        .string()
        .optional()
        .meta({ description: 'text that it must contain', examples: ['quota'] }),
    })
    .optional()
    .meta({ description: 'a condition on the body', examples: [{ path: 'error.code', contains: 'quota' }] }),
};

const NOT_A_MEANING = 'expected a status other than 401, 408 and 429, which say nothing of what was asked for';

/** Fields of a rule that tells answers of one meaning from others, such as a page past the end. */
export const answerRuleFields = {
  status: z.array(
    z
      .int()
      .min(400)
      .max(499)
      .refine((status) => ![401, 408, 429].includes(status), NOT_A_MEANING),
  ),
  body: z
    .strictObject({
      path: z
        .string()
        .meta({ description: 'A place in the body that must be there and not null.', examples: ['code'] }),
      contains: z
        .string()
        .nullable()
        .default(null)
        .meta({ description: 'Text that it must contain, in any case.', examples: ['invalid_page_number'] }),
    })
    .nullable()
    .default(null),
};

/** Answers of one of these statuses whose body says so. */
export interface AnswerRule {
  status: readonly number[];
  /** A place that is there and not null; its text contains this, if that is given. */
  body: { path: string; contains: string | null } | null;
}

/**
 * One row of the outcome table. The first row of which all conditions hold decides. The service's own rows come before
 * the built-in ones (`http/outcome/outcome-table.ts`).
 */
export const outcomeRuleSchema = z.strictObject({
  ...answerConditions,
  outcome: z.enum(OUTCOMES).meta({ examples: ['retry'] }),
  /** Said in logs and errors. */
  reason: z
    .string()
    .optional()
    .meta({ examples: ['the index is being rebuilt'] }),
});

/** Conditions on an answer, as a profile states them. */
export type AnswerConditions = Pick<z.output<typeof outcomeRuleSchema>, keyof typeof answerConditions>;

export type OutcomeRule = z.output<typeof outcomeRuleSchema>;

function statusPattern() {
  return z.string().regex(/^[1-5](\d\d|xx)$/, 'expected a status such as "404" or "5xx", in quotes');
}
