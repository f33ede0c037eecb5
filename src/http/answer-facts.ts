import type { AnswerFacts } from '../queue/governor.ts';
import type { AnswerLimits } from '../queue/limits/answer-limits.ts';
import type { WireAnswer } from './exchange.ts';

/** The governor's part of an answer; null if none came. */
export function factsOf(answer: WireAnswer, limits: AnswerLimits, limited: boolean): AnswerFacts | null {
  const { status, receivedAt, latencyMs } = answer;
  return status === 0 ? null : { status, limits, receivedAt, latencyMs, limited };
}
