import { z } from 'zod';
import { OUTCOMES } from '../model/vocabulary.ts';

/** Conditions on an answer; all that are present must hold. */
export const answerConditions = {
  /** `404`, `5xx`, or a list of such. */
  status: z.union([statusPattern(), z.array(statusPattern()).min(1)]).optional(),
  /** A header that must be there; with `contains`, its value must contain this text (case does not count). */
  header: z.strictObject({ name: z.string().min(1), contains: z.string().optional() }).optional(),
  /** A place in the JSON body that must be there and not null; with `contains`, as text it must contain this. */
  body: z.strictObject({ path: z.string(), contains: z.string().optional() }).optional(),
};

/**
 * One row of the outcome table. The first row of which all conditions hold decides. The service's own rows come before
 * the built-in ones (`http/outcome/outcome-table.ts`).
 */
export const outcomeRuleSchema = z.strictObject({
  ...answerConditions,
  outcome: z.enum(OUTCOMES),
  /** Said in logs and errors. */
  reason: z.string().optional(),
});

/** Conditions on an answer, as a profile states them. */
export type AnswerConditions = Pick<z.output<typeof outcomeRuleSchema>, keyof typeof answerConditions>;

export type OutcomeRule = z.output<typeof outcomeRuleSchema>;

function statusPattern() {
  return z.string().regex(/^[1-5](\d\d|xx)$/, 'expected a status such as "404" or "5xx", in quotes');
}
