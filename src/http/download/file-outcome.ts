import { SyncError } from '../../model/errors.ts';
import type { Seen } from '../outcome/outcome-table.ts';
import type { OutcomeVerdict } from '../outcome/outcome.ts';
import type { Asked, Received } from './file-sink.ts';

/** Codes of answers to a request for a file; others end in an error. */
export type FileCode = 'file' | 'unchanged' | 'gone' | 'expired' | 'refused' | 'rest' | 'anew' | 'file_address';

/** How an answer is judged by what became of its body, and by whether it is the service's own. */
export interface FileAnswer {
  received: Received | null;
  asked: Asked;
  isOwn: boolean;
  judge: (seen: Seen) => OutcomeVerdict;
}

/** A signed address that has run out is told in any of these ways; S3 says 400 of some and 403 of others. */
const EXPIRED: ReadonlySet<number> = new Set([400, 401, 403, 404, 410]);
const GONE: ReadonlySet<number> = new Set([404, 410]);
const ATTEMPTS_AT_NOTHING = 3;

/** Decides an answer to a request for a file, before the outcome table does. Throws what our own disk failed with. */
export function judgeFile({ received, asked, isOwn, judge }: FileAnswer, seen: Seen): OutcomeVerdict {
  const { status, transport } = seen;
  if (received?.kind === 'failed') throw received.error;
  if (transport === 'file_address') return coded('file_address', 'the address is none of the public internet');
  if (transport !== null) return judge(seen);
  if (received !== null) return (isOwn ? judgeWords(received, seen, judge) : null) ?? judgeBody(received);
  if (status === 304) return judgeUnchanged(asked);
  if (status === 416) return coded('anew', 'the rest of the file cannot be had');
  const verdict = judge(seen);
  if (verdict.outcome === 'limited') return verdict;
  if (!isOwn && EXPIRED.has(status)) return coded('expired', `the address answered ${status}`);
  if (isOwn && GONE.has(status)) return coded('gone', verdict.reason);
  return verdict;
}

/** A service may say with a 200 that it limits, or fails: that says nothing of the file. Null for anything else. */
function judgeWords(received: Received, seen: Seen, judge: (seen: Seen) => OutcomeVerdict): OutcomeVerdict | null {
  if (received.kind !== 'refused' || received.json === undefined) return null;
  const verdict = judge({ ...seen, content: null, json: received.json, isRecord: false });
  return verdict.outcome === 'limited' || verdict.outcome === 'retry' ? verdict : null;
}

function judgeBody(received: Exclude<Received, { kind: 'failed' }>): OutcomeVerdict {
  if (received.kind === 'refused') return coded('refused', received.refusal.reason);
  if (received.kind === 'turn_over') return coded('rest', 'others have their turn before its rest');
  if (received.kind === 'wrong_part') return coded('anew', received.reason);
  return received.kind === 'whole' ? { outcome: 'ok', code: 'file', reason: 'the file is here' } : EMPTY;
}

const EMPTY: OutcomeVerdict = {
  outcome: 'retry',
  code: 'empty_body',
  reason: 'the file has no content',
  attempts: ATTEMPTS_AT_NOTHING,
};

function judgeUnchanged(asked: Asked): OutcomeVerdict {
  if (asked === 'if_changed') return coded('unchanged', 'the file is the one that is here');
  if (asked === 'if_still_this') return coded('file', 'the file is here');
  return { outcome: 'retry', code: 'bad_http', reason: 'not modified (304), which was not asked for' };
}

function coded(code: FileCode, reason: string): OutcomeVerdict {
  return { outcome: 'skip', code, reason };
}

/** The error of a host that is not the service's: its answers are about one file, and never about the source. */
export function errorElsewhere(error: SyncError, host: string): SyncError {
  return new SyncError(error.code, error.message, {
    recovery: 'retry',
    hint: `Check that ${host} is up and serves this file to anybody who has its address; it is tried again later.`,
    requestId: error.requestId,
    cause: error,
  });
}
