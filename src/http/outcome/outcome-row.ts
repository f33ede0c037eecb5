import type { JsonValue } from '../../model/json.ts';
import type { AnswerLimits } from '../../queue/limits/answer-limits.ts';
import type { Outcome } from '../../model/vocabulary.ts';

/** Headers of an answer: names in lower case, repeated headers as arrays. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The part of an attempt's answer that decides what to do next. */
export interface Seen {
  /** 0 if no answer came. */
  status: number;
  headers: AnswerHeaders;
  limits: Pick<AnswerLimits, 'retryAfterMs' | 'isExhausted'>;
  /** Code of the failure that kept the answer from arriving whole; null if it is complete. */
  transport: string | null;
  /** Code of what is wrong with a complete body of a 2xx; null if it is usable. */
  content: string | null;
  /** The parsed body, also of an error answer if it is JSON. */
  json: JsonValue | undefined;
  /** The beginning of the body of an answer that is not a 2xx, as it came. */
  excerpt: string;
  /** True if the body is a record itself, as the profile describes them: a field `error` is one of its own. */
  isRecord: boolean;
}

/** One row of the table: every condition that is present must hold. */
export interface OutcomeRow extends StatusRow {
  when?: (seen: Seen) => boolean;
}

/** A row that goes by the status and by failures alone. */
export interface StatusRow {
  /** Codes of `transport` or `content` failures; a final `*` stands for any ending. */
  failure?: readonly string[];
  /** `404` or `5xx`. */
  status?: readonly string[];
  outcome: Outcome;
  /** Stable: scripts and the floors above match on it. */
  code: string;
  reason: string;
  hint?: string;
  /** Attempts after which trying again is pointless, if that is fewer than the profile allows. */
  attempts?: number;
}
