import { SyncError } from '../../model/errors.ts';
import { holdsSecret } from '../../observe/scrub/scrub.ts';
import type { AttemptResult } from '../attempt.ts';
import { scrubbedSnippet, snippet } from '../body/safe-text.ts';

type Judged = Extract<AttemptResult, { kind: 'judged' }>;

/** The id under which the service's operators find this request; null where the answer has none. */
export function requestId(headers: Judged['answer']['headers']): string | null {
  const value = headers['x-request-id'] ?? headers['request-id'];
  return typeof value === 'string' ? snippet(value, 80) : null;
}

/**
 * The error with which a request ends: method, URL (as `shownUrl` writes it), status, request id, attempts, and the
 * beginning of what came, cleaned. `recovery` is `stop` for a verdict that asking again cannot change.
 */
export function requestError(of: {
  judged: Judged;
  url: string;
  attempts: number;
  hint: string | undefined;
  secrets: readonly string[];
  note?: string;
}): SyncError {
  const { verdict, answer } = of.judged;
  const id = requestId(answer.headers);
  const parts = [
    `GET ${of.url} ${answer.status === 0 ? 'failed' : `answered ${answer.status}`}${id === null ? '' : ` (request ${scrubbedSnippet(id, of.secrets)})`}`,
    `: ${explanation(of.judged, of.secrets)}`,
    of.attempts > 1 ? `; ${of.attempts} attempts` : '',
    of.note === undefined ? '' : `; ${of.note}`,
  ];
  const recovery = verdict.outcome === 'stop' || verdict.outcome === 'reauth' ? 'stop' : 'retry';
  return new SyncError(verdict.code, parts.join(''), { recovery, hint: of.hint });
}

/** Why, and the beginning of what came. A parser quotes a few characters, which may be a part of a secret. */
function explanation({ verdict, answer, reading }: Judged, secrets: readonly string[]): string {
  if (answer.failure !== null) return `${verdict.reason} (${answer.failure})`;
  if (reading.defect !== '') {
    return holdsSecret(reading.bytes.toString(), secrets) ? verdict.reason : snippet(reading.defect);
  }
  const excerpt = scrubbedSnippet(reading.seen.excerpt.trim(), secrets);
  return excerpt === '' ? verdict.reason : `${verdict.reason}: ${excerpt}`;
}
