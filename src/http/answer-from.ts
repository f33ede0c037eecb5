import { ageOf } from '../model/answer-age.ts';
import { clockOf } from '../model/http-date.ts';
import type { AttemptResult } from './attempt.ts';
import type { ApiAnswer } from './client.ts';

/** The answer to a request out of its last attempt; without its content if it is one of the outcome `skip`. */
export function answerFrom(
  { answer, reading, verdict }: Extract<AttemptResult, { kind: 'judged' }>,
  url: URL,
  outcome: ApiAnswer['outcome'],
): ApiAnswer {
  const age = ageOf(answer.headers);
  return {
    outcome,
    code: verdict.code,
    url,
    status: answer.status,
    headers: answer.headers,
    bytes: reading.bytes,
    json: outcome === 'ok' ? (reading.seen.json ?? null) : null,
    requestedAt: answer.sentAt - age.ageMs,
    age,
    serverDate: clockOf(answer.headers['date'], answer.receivedAt),
  };
}
