import { z } from 'zod';
import { OUTCOMES } from '../model/vocabulary.ts';

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
    .strictObject({ path: z.string(), contains: z.string().nullable().default(null) })
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
 * One row of the outcome table. All conditions that are present must hold; the first matching row decides.
 * The service's own rows come before the built-in ones (`http/outcome/outcome-table.ts`).
 */
export const outcomeRuleSchema = z.strictObject({
  /** `404`, `5xx`, or a list of such. */
  status: z.union([statusPattern(), z.array(statusPattern()).min(1)]).optional(),
  /** A header that must be there; with `contains`, its value must contain this text (case does not count). */
  header: z.strictObject({ name: z.string().min(1), contains: z.string().optional() }).optional(),
  /** A place in the JSON body that must be there and not null; with `contains`, as text it must contain this. */
  body: z.strictObject({ path: z.string(), contains: z.string().optional() }).optional(),
  outcome: z.enum(OUTCOMES),
  /** Said in logs and errors. */
  reason: z.string().optional(),
});

export type OutcomeRule = z.output<typeof outcomeRuleSchema>;

function statusPattern() {
  return z.string().regex(/^[1-5](\d\d|xx)$/, 'expected a status such as "404" or "5xx", in quotes');
}
