// Downloads one file of a record, and checks its size, type and hash. It runs in the request loop of the client, with
// other rules for what an answer means: an expired signed URL, for example, is no error, but its record is fetched
// again.
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { ApiAnswer } from '../client.ts';
import type { AnswerHeaders, OutcomeVerdict, ReceivedResponse } from '../outcome/outcome-table.ts';
import { type ClientParts, runRequest } from '../request-loop.ts';
import { type AddressRules, refusePrivateUrl } from './addresses.ts';
import {
  type Downloaded,
  type DownloadRequest,
  findHashFault,
  findKindFault,
  findSizeFault,
} from './download-request.ts';
import { FileBody, type ReceivedBody } from './file-body.ts';
import { detectKind } from './file-kind.ts';

/** The shared parts of all downloads of one source. */
export interface DownloadParts {
  client: ClientParts;
  /** Retry quota of downloads, so that failing files do not use up that of records. */
  quota: ClientParts['quota'];
  /** Used for other origins, such as a CDN: without credential, certificate and outcome rules of the service. */
  elsewhere: { exchange: ClientParts['exchange']; judge: ClientParts['judge']; limiterFor: ClientParts['limiterFor'] };
  rules: AddressRules;
}

const MAX_REDIRECTS = 5;

interface DownloadProgress {
  parts: DownloadParts;
  request: DownloadRequest;
  file: FileBody;
  /** The current URL, after redirects. */
  at: URL;
}

/**
 * Downloads one file to `spool` through the request loop of the client, and checks size, type and hash. The file is kept
 * only if the result is `fetched`.
 */
export async function downloadFile(parts: DownloadParts, request: DownloadRequest): Promise<Downloaded> {
  const { url, meter, signal } = request;
  signal.throwIfAborted();
  const file = new FileBody(request);
  const progress: DownloadProgress = { parts, request, file, at: url };
  let downloaded: Downloaded | null = null;
  try {
    const answer = await runRequest(loopParts(progress), { url, lane: 'bulk', meter, signal, into: file });
    downloaded = await toDownloaded(progress, answer);
  } catch (error) {
    downloaded = toRefusal(progress, error);
  } finally {
    if (downloaded?.kind !== 'fetched') await file.remove();
  }
  return downloaded;
}

/** Returns the parts of the client, or those for other origins while the current URL is there. */
function loopParts(progress: DownloadProgress): ClientParts {
  const { parts, request } = progress;
  const { client, elsewhere, quota, rules } = parts;
  const { home, secrets } = client.origins;
  const partsFor = (url: URL): DownloadParts['elsewhere'] => (url.origin === home ? client : elsewhere);
  return {
    ...client,
    quota,
    exchange: (wire, account) => partsFor(wire.url).exchange(wire, account),
    limiterFor: (url) => partsFor(url).limiterFor(url),
    judge: (response) => judgeFile(progress, response, partsFor(progress.at).judge),
    origins: {
      home,
      secrets,
      getsCredential: request.isOfService,
      allowsOthers: true,
      assertAllowed: (url) => {
        progress.at = url;
        if (url.origin !== home) refusePrivateUrl(url, rules);
      },
      maxRedirects: MAX_REDIRECTS,
    },
  };
}

/** Codes of responses to a request for a file; others end in an error. */
type FileCode = 'file' | 'unchanged' | 'gone' | 'expired' | 'refused' | 'file_address';

/** Statuses of an expired signed URL; S3 uses 400 and 403. */
const EXPIRED: ReadonlySet<number> = new Set([400, 401, 403, 404, 410]);
const GONE: ReadonlySet<number> = new Set([404, 410]);
const MAX_EMPTY_ATTEMPTS = 3;

/** Decides the outcome by the received file, else by the outcome table. Throws a disk error. */
function judgeFile(
  { file, request, at, parts }: DownloadProgress,
  response: ReceivedResponse,
  judge: ClientParts['judge'],
): OutcomeVerdict {
  const { status, transport } = response;
  if (file.failure !== null) throw file.failure;
  if (transport === 'file_address') return skip('file_address', 'the address is none of the public internet');
  if (transport !== null) return judge(response);
  const isOfService = at.origin === parts.client.origins.home && request.isOfService(at);
  if (file.received !== null) return judgeBody(file.received, response, isOfService ? judge : null);
  if (status === 304) {
    if (request.etag !== null || request.lastModified !== null) return skip('unchanged', 'the file has not changed');
    return { outcome: 'retry', code: 'service_error', reason: 'not modified (304), which was not asked for' };
  }
  const verdict = judge(response);
  if (verdict.outcome === 'limited') return verdict;
  if (!isOfService && EXPIRED.has(status)) return skip('expired', `the address answered ${status}`);
  return isOfService && GONE.has(status) ? skip('gone', verdict.reason) : verdict;
}

/** Decides the outcome by the body. `judge` decides a 200 with JSON about a limit or an error; null for other origins. */
function judgeBody(
  received: ReceivedBody,
  response: ReceivedResponse,
  judge: ClientParts['judge'] | null,
): OutcomeVerdict {
  if (received.kind === 'refused') {
    const { json, refusal } = received;
    const verdict =
      json === undefined ? null : (judge?.({ ...response, content: null, json, isRecord: false }) ?? null);
    const isRequestedAgain = verdict?.outcome === 'limited' || verdict?.outcome === 'retry';
    return isRequestedAgain ? verdict : skip('refused', refusal.reason);
  }
  if (received.kind === 'whole') return { outcome: 'ok', code: 'file', reason: 'the file is whole' };
  if (received.kind === 'part') return { outcome: 'retry', code: 'service_error', reason: 'a part of the file (206)' };
  return { outcome: 'retry', code: 'empty_body', reason: 'the file has no content', attempts: MAX_EMPTY_ATTEMPTS };
}

function skip(code: FileCode, reason: string): OutcomeVerdict {
  return { outcome: 'skip', code, reason };
}

async function toDownloaded(progress: DownloadProgress, answer: ApiAnswer): Promise<Downloaded> {
  const { at, file } = progress;
  const { received } = file;
  if (received?.kind === 'whole') return checkFile(progress, received.sha256, answer.headers);
  if (received?.kind === 'refused') return { kind: 'refused', ...received.refusal };
  if (answer.code === 'unchanged') return { kind: 'unchanged' };
  if (answer.code === 'expired') return { kind: 'expired', reason: `${at.host} answered ${answer.status}` };
  if (answer.code === 'file_address') {
    const reason = `${at.hostname} is, or resolves to, no address of the public internet`;
    return { kind: 'refused', code: 'file_address', reason };
  }
  // Includes responses that an outcome rule of the profile skips.
  return { kind: 'gone' };
}

/** Checks a complete file. */
async function checkFile(
  { request, file }: DownloadProgress,
  sha256: string,
  headers: AnswerHeaders,
): Promise<Downloaded> {
  const { bytes, path } = file;
  const kind = await detectKind(file.head, path);
  const fault = findSizeFault(bytes, request) ?? findKindFault(kind, request) ?? findHashFault(sha256, request);
  if (fault !== null) return { kind: 'refused', ...fault };
  const { type, size } = kind;
  const picture = { width: size?.width ?? null, height: size?.height ?? null };
  const validators = { etag: onlyValue(headers['etag']), lastModified: onlyValue(headers['last-modified']) };
  return { kind: 'fetched', path, sha256, bytes, type, ...picture, ...validators };
}

/** Null for a header that is absent or repeated. */
function onlyValue(header: AnswerHeaders[string]): string | null {
  return typeof header === 'string' ? header : null;
}

/** Codes of URLs that must not be requested, and of redirects to them. */
const REFUSED: ReadonlySet<string> = new Set(['file_address', 'origin_refused', 'bad_query_value']);

/** Codes of failures that concern only this file, although they would stop a listing. */
const OF_ONE_FILE: ReadonlySet<string> = new Set([
  'bad_request',
  'forbidden',
  'too_many_redirects',
  'unexpected_status',
  'unsupported_encoding',
]);

/** Returns the result for a URL that must not be requested. Rethrows other errors, as `retry` if they concern only this file. */
function toRefusal({ parts, at }: DownloadProgress, error: unknown): Downloaded {
  if (!(error instanceof SyncError) || error instanceof DeferredError) throw error;
  const { code, message, hint, requestId } = error;
  if (REFUSED.has(code)) return { kind: 'refused', code: 'file_address', reason: message };
  if (code.startsWith('file_store_')) throw error;
  const isElsewhere = at.origin !== parts.client.origins.home;
  if (!isElsewhere && !OF_ONE_FILE.has(code)) throw error;
  // A response of another host concerns one file, never the source.
  const hostHint = `Check that ${at.host} is up and serves this file to anybody who has its address; it is tried again later.`;
  throw new SyncError(code, message, {
    recovery: 'retry',
    hint: isElsewhere ? hostHint : hint,
    requestId,
    cause: error,
  });
}
