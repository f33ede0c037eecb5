import { expect, it } from 'vitest';
import { outcomeRuleSchema } from '../../src/source/http-fields.ts';

it.each([
  { status: '404', outcome: 'skip' },
  { status: ['409', '5xx'], outcome: 'retry' },
  { header: { name: 'x-error', contains: 'busy' }, outcome: 'retry', reason: 'busy' },
  { body: { path: 'error.code' }, outcome: 'stop' },
])('%j is a rule', (rule) => {
  expect(outcomeRuleSchema.parse(rule)).toEqual(rule);
});

it.each([
  { status: '404' },
  { status: 404, outcome: 'skip' },
  { status: '60x', outcome: 'skip' },
  { status: [], outcome: 'skip' },
  { outcome: 'shrug' },
])('%j is none', (rule) => {
  expect(outcomeRuleSchema.safeParse(rule).success).toBe(false);
});
