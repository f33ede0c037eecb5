import type { JsonValue } from '../../model/json.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import type { AnswerConditions, AnswerRule, OutcomeRule } from '../../config/profile/http-fields.ts';
import {
  type AnswerHeaders,
  BUILT_IN_ROWS,
  type OutcomeRow,
  searchableText,
  type Seen,
  type StatusRow,
  TOKEN_ROWS,
} from './outcome-table.ts';

/** The decision about one attempt, and how to say it. */
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

/** Decides an answer of a token endpoint: `ok` is one that the grant itself reads. */
export function judgeTokenAnswer({ status, failure }: { status: number; failure: string | null }): OutcomeVerdict {
  return TOKEN_ROWS.find((row) => fits(row, status, failure)) ?? NO_ROW;
}

/** The verdict about an answer that its request takes for one that says `skip`; null for any other. */
export function declaredVerdict(rule: AnswerRule | undefined, seen: Seen): OutcomeVerdict | null {
  if (rule === undefined || seen.transport !== null || !rule.status.includes(seen.status)) return null;
  return rule.body === null || contains(textAt(seen.json, rule.body.path), rule.body.contains ?? undefined)
    ? DECLARED
    : null;
}

const DECLARED = { outcome: 'skip', code: 'declared', reason: 'the profile says what this answer means' } as const;

function firstMatch(rows: readonly OutcomeRow[], seen: Seen): OutcomeRow | undefined {
  const failure = seen.transport ?? seen.content;
  return rows.find((row) => fits(row, seen.status, failure) && (row.when === undefined || row.when(seen)));
}

function fits(row: StatusRow, status: number, failure: string | null): boolean {
  return (
    (row.failure === undefined || isFailure(row.failure, failure)) &&
    (row.status === undefined || row.status.some((pattern) => isStatus(pattern, status)))
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
  return {
    ...(rule.status === undefined ? {} : { status: [rule.status].flat() }),
    when: (seen) => meetsConditions({ ...rule, status: undefined }, seen),
    outcome: rule.outcome,
    code: rule.outcome === 'limited' ? 'limited' : 'outcome_rule',
    reason: rule.reason ?? 'a rule of the profile decides so',
    hint: 'See outcomes in the profile.',
  };
}

/** True if all conditions hold for an answer. */
export function meetsConditions(
  { status, header, body }: AnswerConditions,
  seen: Pick<Seen, 'status' | 'headers' | 'json'>,
): boolean {
  return (
    (status === undefined || [status].flat().some((pattern) => isStatus(pattern, seen.status))) &&
    (header === undefined || contains(headerText(seen.headers, header.name), header.contains)) &&
    (body === undefined || bodyMatches(seen.json, body))
  );
}

/** True if the place is there and not null, and holds the text, if one is asked for. */
export function bodyMatches(
  json: JsonValue | undefined,
  place: { path: string; contains?: string | undefined },
): boolean {
  return contains(textAt(json, place.path), place.contains);
}

/** All values of a header as one text; undefined if the header is absent. */
function headerText(headers: AnswerHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

function contains(text: string | undefined, part: string | undefined): boolean {
  return text !== undefined && (part === undefined || text.toLowerCase().includes(part.toLowerCase()));
}

/** The value at a dotted path as text, JSON unless it is a string; undefined if it is absent or null. */
function textAt(body: JsonValue | undefined, path: string): string | undefined {
  const value = body === undefined ? undefined : fieldAt(body, path);
  return value === undefined || value === null ? undefined : searchableText(value);
}
