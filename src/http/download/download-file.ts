import { DeferredError, SyncError } from '../../model/errors.ts';
import type { ApiAnswer, ApiRequest } from '../client.ts';
import type { ClientParts } from '../create-client.ts';
import type { OutcomeVerdict, Seen } from '../outcome/outcome-table.ts';
import { type LoopParts, type RetryQuota, runRequest } from '../request-loop.ts';
import { type AddressRules, refusePrivate } from './addresses.ts';
import { type Downloaded, type DownloadRequest, hashFault, kindFault, sizeFault } from './download-request.ts';
import { FileBody, headerText, type ReceivedBody } from './file-body.ts';
import { kindOf } from './file-kind.ts';

/** What all downloads of one source have in common. */
export interface DownloadParts {
  client: ClientParts;
  /** For origins besides the service's. */
  elsewhere: {
    exchange: LoopParts['exchange'];
    judge: LoopParts['judge'];
    limiterFor: LoopParts['limiterFor'];
    quotaOf: (origin: string) => RetryQuota;
  };
  rules: AddressRules;
}

const MAX_REDIRECTS = 5;
/** How often a file is begun again in one call, because what came did not fit together, or an address ran out meanwhile. */
const MAX_RESTARTS = 2;

/** The state of one download. */
interface DownloadProgress {
  parts: DownloadParts;
  request: DownloadRequest;
  file: FileBody;
  /** Where it was led by now. */
  at: URL;
  restarts: number;
}

/** One file from its first request until it is whole in the spool, or will not be. */
export async function downloadFile(parts: DownloadParts, request: DownloadRequest): Promise<Downloaded> {
  request.signal.throwIfAborted();
  const file = new FileBody(request);
  const progress: DownloadProgress = { parts, request, file, at: request.url, restarts: 0 };
  try {
    for (;;) {
      const downloaded = await handleAnswer(progress, await ask(progress));
      if (downloaded === null) continue;
      if (downloaded.kind !== 'fetched') await file.remove();
      return downloaded;
    }
  } catch (error) {
    await file.remove();
    return refusalOf(progress, error);
  }
}

function ask(progress: DownloadProgress): Promise<ApiAnswer> {
  const { request, file } = progress;
  const { url, meter, signal } = request;
  progress.at = url;
  const asked: ApiRequest = { url, lane: 'bulk', meter, signal, into: file };
  return runRequest(loopParts(progress), request.isOwn(url) ? asked : { ...asked, as: 'nobody' });
}

/** The client's own parts, and beyond its origin those that know nothing of it. */
function loopParts(progress: DownloadProgress): LoopParts {
  const { parts, request, file } = progress;
  const { client, elsewhere, rules } = parts;
  const { home, secrets } = client.origins;
  const isHome = (url: URL): boolean => url.origin === home;
  const quota = (): RetryQuota => (isHome(progress.at) ? client.quota : elsewhere.quotaOf(progress.at.origin));
  return {
    ...client,
    // The address of a record is requested unchanged and without a credential.
    ...(request.isOwn(request.url)
      ? {}
      : { homeHeaders: client.plainHeaders, credentials: { ...client.credentials, queryNames: [] } }),
    exchange: (wire, account) => (isHome(wire.url) ? client : elsewhere).exchange(wire, account),
    limiterFor: (url) => (isHome(url) ? client : elsewhere).limiterFor(url),
    judge: (seen) => {
      const { judge } = isHome(progress.at) ? client : elsewhere;
      return judgeFile({ file, isOwn: isHome(progress.at) && request.isOwn(progress.at), judge }, seen);
    },
    quota: { take: () => quota().take(), refund: () => quota().refund() },
    origins: {
      home,
      secrets,
      isOwn: request.isOwn,
      allowsOthers: true,
      judge: (url) => {
        progress.at = url;
        if (!isHome(url)) refusePrivate(url, rules);
      },
      maxHops: MAX_REDIRECTS,
    },
  };
}

/** Codes of answers to a request for a file; others end in an error. */
type FileCode = 'file' | 'unchanged' | 'gone' | 'expired' | 'refused' | 'restart' | 'file_address';

/** How an answer is judged by what became of its body, and by whether it is the service's own. */
interface FileJudgement {
  file: FileBody;
  isOwn: boolean;
  judge: (seen: Seen) => OutcomeVerdict;
}

/** Statuses of an expired signed address; S3 uses 400 and 403. */
const EXPIRED: ReadonlySet<number> = new Set([400, 401, 403, 404, 410]);
const GONE: ReadonlySet<number> = new Set([404, 410]);
const MAX_EMPTY_ATTEMPTS = 3;

/** Decides an answer to a request for a file, before the outcome table does. Throws what our own disk failed with. */
function judgeFile({ file, isOwn, judge }: FileJudgement, seen: Seen): OutcomeVerdict {
  const { status, transport } = seen;
  const { received, failure } = file;
  if (failure !== null) throw failure;
  if (transport === 'file_address') return coded('file_address', 'the address is none of the public internet');
  if (transport !== null) return judge(seen);
  if (received !== null) return (isOwn ? judgeWords(received, seen, judge) : null) ?? judgeBody(received);
  if (status === 304) {
    if (file.isConditional) return coded('unchanged', 'the file is the one that is here');
    return { outcome: 'retry', code: 'bad_http', reason: 'not modified (304), which was not asked for' };
  }
  if (status === 416) return coded('restart', 'the rest of the file cannot be had');
  const verdict = judge(seen);
  if (verdict.outcome === 'limited') return verdict;
  if (!isOwn && EXPIRED.has(status)) return coded('expired', `the address answered ${status}`);
  return isOwn && GONE.has(status) ? coded('gone', verdict.reason) : verdict;
}

/** A service may say with a 200 that it limits, or fails: that says nothing of the file. Null for anything else. */
function judgeWords(received: ReceivedBody, seen: Seen, judge: FileJudgement['judge']): OutcomeVerdict | null {
  if (received.kind !== 'refused' || received.json === undefined) return null;
  const verdict = judge({ ...seen, content: null, json: received.json, isRecord: false });
  return verdict.outcome === 'limited' || verdict.outcome === 'retry' ? verdict : null;
}

function judgeBody(received: ReceivedBody): OutcomeVerdict {
  if (received.kind === 'refused') return coded('refused', received.refusal.reason);
  if (received.kind === 'wrong_part') return coded('restart', received.reason);
  if (received.kind === 'whole') return { outcome: 'ok', code: 'file', reason: 'the file is here' };
  return { outcome: 'retry', code: 'empty_body', reason: 'the file has no content', attempts: MAX_EMPTY_ATTEMPTS };
}

function coded(code: FileCode, reason: string): OutcomeVerdict {
  return { outcome: 'skip', code, reason };
}

/** Returns the result of a download; null to request the file again. */
async function handleAnswer(progress: DownloadProgress, answer: ApiAnswer): Promise<Downloaded | null> {
  const { at, request, file } = progress;
  const { received } = file;
  switch (answer.code) {
    case 'file':
      return checked(progress, answer);
    case 'unchanged':
      return { kind: 'unchanged' };
    case 'refused':
      if (received?.kind !== 'refused') throw new Error('a file that nobody has refused');
      return { kind: 'refused', ...received.refusal };
    case 'file_address': {
      const reason = `${at.hostname} is, or resolves to, no address of the public internet`;
      return { kind: 'refused', code: 'file_address', reason };
    }
    case 'expired':
      // Where the service leads to is led to once more; only an address of a record is for its record to tell.
      if (at.origin !== request.url.origin && mayRestart(progress)) return null;
      return { kind: 'expired', reason: `${at.host} answered ${answer.status}` };
    case 'restart': {
      await file.restart();
      if (mayRestart(progress)) return null;
      const reason = received?.kind === 'wrong_part' ? received.reason : 'no rest of what it had begun with';
      throw new SyncError('bad_http', `the service sends ${reason}`, { recovery: 'retry' });
    }
    default:
      // What a profile leaves out by a rule of its own is not there for us.
      return { kind: 'gone' };
  }
}

function mayRestart(progress: DownloadProgress): boolean {
  progress.restarts += 1;
  return progress.restarts <= MAX_RESTARTS;
}

/** A file whose bytes are all here: what they are decides. */
async function checked(progress: DownloadProgress, { headers }: ApiAnswer): Promise<Downloaded | null> {
  const { request, file } = progress;
  const { bytes, path, head, etag } = file;
  const sha256 = await file.finish();
  const { type, size, isDamaged } = await kindOf(head, { path, bytes });
  const fault =
    sizeFault(bytes, request) ?? kindFault({ type, size, isDamaged }, request, true) ?? hashFault(sha256, request);
  if (fault?.code === 'file_differs' && file.isPieced && mayRestart(progress)) {
    await file.restart();
    return null;
  }
  if (fault !== null) return { kind: 'refused', ...fault };
  return {
    kind: 'fetched',
    path,
    sha256,
    bytes,
    type,
    width: size?.width ?? null,
    height: size?.height ?? null,
    etag: headerText(headers, 'etag') ?? etag,
    lastModified: headerText(headers, 'last-modified'),
  };
}

/** Codes of addresses that must not be asked, and of redirects to such. */
const REFUSED: ReadonlySet<string> = new Set([
  'file_address',
  'origin_refused',
  'insecure_refused',
  'redirect_refused',
  'bad_url',
]);

/** Codes of failures that are about one file, although they would be about a whole listing. */
const OF_ONE_FILE: ReadonlySet<string> = new Set([
  'bad_request',
  'forbidden',
  'headers_too_large',
  'not_supported',
  'too_many_redirects',
  'unexpected_status',
  'unsupported_encoding',
]);

/** An address that is refused is no error; whatever else ended a download is thrown as what it means for its file. */
function refusalOf({ parts, at }: DownloadProgress, error: unknown): Downloaded {
  if (!(error instanceof SyncError) || error instanceof DeferredError) throw error;
  const { code, message, hint, requestId } = error;
  if (REFUSED.has(code)) return { kind: 'refused', code: 'file_address', reason: message };
  if (code.startsWith('file_store_')) throw error;
  const isElsewhere = at.origin !== parts.client.origins.home;
  if (!isElsewhere && !OF_ONE_FILE.has(code)) throw error;
  // The answers of another host are about one file, and never about the source.
  const look = `Check that ${at.host} is up and serves this file to anybody who has its address; it is tried again later.`;
  throw new SyncError(code, message, {
    recovery: 'retry',
    hint: isElsewhere ? look : hint,
    requestId,
    cause: error,
  });
}
