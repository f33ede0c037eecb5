// Downloads one file of a record, such as its image, and checks its size, type and hash. It uses the request loop of the
// client, with other rules for what a response means: if a signed URL of a CDN has expired (403), for example, nothing is
// wrong; the caller fetches the record again, which has a new URL.
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

/** What all downloads of one source share. */
export interface DownloadParts {
  /** Used for files of the service. */
  client: ClientParts;
  /** Retry quota of downloads, so that failing files do not use up that of records. */
  quota: ClientParts['quota'];
  /** Used for other origins, such as a CDN: without credential, certificate and outcome rules of the service. */
  otherOrigins: {
    exchange: ClientParts['exchange'];
    judge: ClientParts['judge'];
    limiterFor: ClientParts['limiterFor'];
  };
  rules: AddressRules;
}

const MAX_REDIRECTS = 5;

interface DownloadProgress {
  parts: DownloadParts;
  request: DownloadRequest;
  file: FileBody;
  /** The URL after redirects. */
  currentUrl: URL;
}

/** Downloads one file to the folder `spool`. The file stays there only if the result is `fetched`. */
export async function downloadFile(parts: DownloadParts, request: DownloadRequest): Promise<Downloaded> {
  const { url, meter, signal } = request;
  signal.throwIfAborted();
  const file = new FileBody(request);
  const progress: DownloadProgress = { parts, request, file, currentUrl: url };
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

/** The parts of the client, except for what depends on the origin of the current URL. */
function loopParts(progress: DownloadProgress): ClientParts {
  const { parts, request } = progress;
  const { client, otherOrigins, quota, rules } = parts;
  const { home, secrets } = client.origins;
  const partsFor = (url: URL): DownloadParts['otherOrigins'] => (url.origin === home ? client : otherOrigins);
  return {
    ...client,
    quota,
    exchange: (wire, account) => partsFor(wire.url).exchange(wire, account),
    limiterFor: (url) => partsFor(url).limiterFor(url),
    judge: (response) => judgeFile(progress, response, partsFor(progress.currentUrl).judge),
    origins: {
      home,
      secrets,
      getsCredential: request.isOfService,
      allowsOthers: true,
      assertAllowed: (url) => {
        progress.currentUrl = url;
        if (url.origin !== home) refusePrivateUrl(url, rules);
      },
      maxRedirects: MAX_REDIRECTS,
    },
  };
}

/** Codes of responses that decide a download; others end in an error. */
type FileCode = 'file' | 'unchanged' | 'gone' | 'expired' | 'refused' | 'file_address';

/** Statuses by which other origins refuse an expired URL; S3 uses 400 and 403. */
const EXPIRED: ReadonlySet<number> = new Set([400, 401, 403, 404, 410]);
const GONE: ReadonlySet<number> = new Set([404, 410]);
const MAX_EMPTY_ATTEMPTS = 3;

/** Decides the outcome of an attempt: by the received file, else by the outcome table of the origin. Throws disk errors. */
function judgeFile(
  { file, request, currentUrl, parts }: DownloadProgress,
  response: ReceivedResponse,
  judge: ClientParts['judge'],
): OutcomeVerdict {
  const { status, transport } = response;
  if (file.failure !== null) throw file.failure;
  if (transport === 'file_address') return skip('file_address', 'the address is none of the public internet');
  if (transport !== null) return judge(response);
  const isOfService = currentUrl.origin === parts.client.origins.home && request.isOfService(currentUrl);
  if (file.received !== null) return judgeBody(file.received, response, isOfService ? judge : null);
  if (status === 304) {
    if (request.etag !== null || request.lastModified !== null) return skip('unchanged', 'the file has not changed');
    return { outcome: 'retry', code: 'service_error', reason: 'not modified (304), which was not asked for' };
  }
  const verdict = judge(response);
  // A 403 may be a rate limit, so this comes first.
  if (verdict.outcome === 'limited') return verdict;
  if (!isOfService && EXPIRED.has(status)) return skip('expired', `the address answered ${status}`);
  return isOfService && GONE.has(status) ? skip('gone', verdict.reason) : verdict;
}

/** Decides the outcome by the body. If the service sends JSON with status 200, `judge` knows limits; null elsewhere. */
function judgeBody(
  received: ReceivedBody,
  response: ReceivedResponse,
  judge: ClientParts['judge'] | null,
): OutcomeVerdict {
  if (received.kind === 'refused') {
    const { json, refusal } = received;
    const verdict = json === undefined ? undefined : judge?.({ ...response, content: null, json, isRecord: false });
    const isTemporary = verdict?.outcome === 'limited' || verdict?.outcome === 'retry';
    return isTemporary ? verdict : skip('refused', refusal.reason);
  }
  if (received.kind === 'whole') return { outcome: 'ok', code: 'file', reason: 'the file is whole' };
  if (received.kind === 'part') return { outcome: 'retry', code: 'service_error', reason: 'a part of the file (206)' };
  return { outcome: 'retry', code: 'empty_body', reason: 'the file has no content', attempts: MAX_EMPTY_ATTEMPTS };
}

function skip(code: FileCode, reason: string): OutcomeVerdict {
  return { outcome: 'skip', code, reason };
}

/** Converts a response that decided the download to its result. */
async function toDownloaded(progress: DownloadProgress, answer: ApiAnswer): Promise<Downloaded> {
  const { currentUrl, file } = progress;
  const { received } = file;
  if (received?.kind === 'whole') return checkFile(progress, received.sha256, answer.headers);
  if (received?.kind === 'refused') return { kind: 'refused', ...received.refusal };
  if (answer.code === 'unchanged') return { kind: 'unchanged' };
  if (answer.code === 'expired') return { kind: 'expired', reason: `${currentUrl.host} answered ${answer.status}` };
  if (answer.code === 'file_address') {
    const reason = `${currentUrl.hostname} is, or resolves to, no address of the public internet`;
    return { kind: 'refused', code: 'file_address', reason };
  }
  // Also if an outcome rule of the profile skips the response.
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

/** Converts the error of a URL that must not be requested to a result. Rethrows others, as `retry` if they concern one file. */
function toRefusal({ parts, currentUrl }: DownloadProgress, error: unknown): Downloaded {
  if (!(error instanceof SyncError) || error instanceof DeferredError) throw error;
  const { code, message, hint, requestId } = error;
  if (REFUSED.has(code)) return { kind: 'refused', code: 'file_address', reason: message };
  if (code.startsWith('file_store_')) throw error;
  const isOtherOrigin = currentUrl.origin !== parts.client.origins.home;
  // An error of another origin concerns one file, never the source.
  if (!isOtherOrigin && !OF_ONE_FILE.has(code)) throw error;
  const hostHint = `Check that ${currentUrl.host} is up and serves this file to anybody who has its address; it is tried again later.`;
  throw new SyncError(code, message, {
    recovery: 'retry',
    hint: isOtherOrigin ? hostHint : hint,
    requestId,
    cause: error,
  });
}
