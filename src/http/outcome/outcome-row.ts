import type { JsonValue } from '../../model/json.ts';
import type { Outcome } from '../../model/vocabulary.ts';

/** Headers of an answer: names in lower case, repeated headers as arrays. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** All that one attempt saw, as far as it decides what to do next. */
export interface Seen {
  /** 0 where no answer came. */
  status: number;
  headers: AnswerHeaders;
  /** Local epoch milliseconds at which they arrived. */
  receivedAt: number;
  /** Code of the failure that kept the answer from arriving whole; null where it is complete. */
  transport: string | null;
  /** Code of what is wrong with a complete body of a 2xx; null where it is usable. */
  content: string | null;
  /** The parsed body, also of an error answer where it is JSON. */
  json: JsonValue | undefined;
  /** The beginning of the body of an answer that is not a 2xx, as it came. */
  excerpt: string;
  /** True where the body holds records, or is one, as the profile describes them. */
  hasRecords: boolean;
}

/** One row of the table: every condition that is present must hold. */
export interface OutcomeRow {
  /** Codes of `transport` or `content` failures; a final `*` stands for any ending. */
  failure?: readonly string[];
  /** `404` or `5xx`. */
  status?: readonly string[];
  when?: (seen: Seen) => boolean;
  outcome: Outcome;
  /** Stable; what scripts and the floors above match on. */
  code: string;
  reason: string;
  hint?: string;
  /** Attempts after which trying again is pointless, where that is fewer than the profile allows. */
  attempts?: number;
}
