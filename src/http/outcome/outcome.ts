import type { OutcomeRule } from '../../source/outcome-rule.ts';
import { textAt } from './body-place.ts';
import type { AnswerHeaders, OutcomeRow, Seen } from './outcome-row.ts';
import { BUILT_IN_ROWS } from './outcome-table.ts';

/** What to do about one attempt, and how to say it. */
export type OutcomeVerdict = Pick<OutcomeRow, 'outcome' | 'code' | 'reason' | 'hint' | 'attempts'>;

/** Decides every answer and failure by one table: the profile's rows first, then the built-in ones. */
export function createJudge(rules: readonly OutcomeRule[]): (seen: Seen) => OutcomeVerdict {
  const profileRows = rules.map(rowOfRule);
  return (seen) => {
    const verdict = seen.transport === null ? firstMatch(profileRows, seen) : undefined;
    // A profile may call a status `ok`, but that does not make an unreadable body readable.
    if (verdict !== undefined && !(verdict.outcome === 'ok' && seen.json === undefined)) return verdict;
    return firstMatch(BUILT_IN_ROWS, seen) ?? NO_ROW;
  };
}

const NO_ROW: OutcomeVerdict = {
  outcome: 'stop',
  code: 'unexpected_status',
  reason: 'the answer has a status that says nothing here',
  hint: 'Add a row to outcomes in the profile that says what this status means.',
};

function firstMatch(rows: readonly OutcomeRow[], seen: Seen): OutcomeRow | undefined {
  return rows.find((row) => matches(row, seen));
}

function matches(row: OutcomeRow, seen: Seen): boolean {
  return (
    (row.failure === undefined || isFailure(row.failure, seen.transport ?? seen.content)) &&
    (row.status === undefined || row.status.some((pattern) => isStatus(pattern, seen.status))) &&
    (row.when === undefined || row.when(seen))
  );
}

function isFailure(patterns: readonly string[], code: string | null): boolean {
  if (code === null) return false;
  return patterns.some((pattern) => (pattern.endsWith('*') ? code.startsWith(pattern.slice(0, -1)) : code === pattern));
}

function isStatus(pattern: string, status: number): boolean {
  return pattern.endsWith('xx') ? Math.trunc(status / 100) === Number(pattern[0]) : status === Number(pattern);
}

function rowOfRule(rule: OutcomeRule): OutcomeRow {
  const { header, body } = rule;
  return {
    ...(rule.status === undefined ? {} : { status: [rule.status].flat() }),
    when: (seen) =>
      (header === undefined || contains(headerText(seen.headers, header.name), header.contains)) &&
      (body === undefined || contains(textAt(seen.json, body.path), body.contains)),
    outcome: rule.outcome,
    code: rule.outcome === 'limited' ? 'limited' : 'outcome_rule',
    reason: rule.reason ?? 'a rule of the profile decides so',
    hint: 'See outcomes in the profile.',
  };
}

/** All values of a header as one text; undefined where the header is absent. */
function headerText(headers: AnswerHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

function contains(text: string | undefined, part: string | undefined): boolean {
  return text !== undefined && (part === undefined || text.toLowerCase().includes(part.toLowerCase()));
}
