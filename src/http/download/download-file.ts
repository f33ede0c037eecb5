import { DeferredError, SyncError } from '../../model/errors.ts';
import type { RetryQuota } from '../backoff.ts';
import type { ApiAnswer, ApiRequest } from '../client.ts';
import type { ClientParts } from '../create-client.ts';
import { type LoopParts, runRequest } from '../request-loop.ts';
import { refusePrivate, type AddressRules } from './address-rules.ts';
import { headerText } from './byte-range.ts';
import { hashFault, kindFault, sizeFault } from './content-rules.ts';
import type { Checkpoints } from './checkpoint.ts';
import type { Downloaded, DownloadRequest } from './downloader.ts';
import { errorElsewhere, judgeFile, type FileCode } from './file-outcome.ts';
import { kindOf } from './file-kind.ts';
import { FileSink } from './file-sink.ts';
import { UnfinishedFile } from './unfinished-file.ts';

/** What all downloads of one source have in common. */
export interface DownloadParts {
  client: ClientParts;
  /** For origins besides the service's. */
  elsewhere: Pick<LoopParts, 'exchange' | 'judge' | 'governorOf'> & { quotaOf: (origin: string) => RetryQuota };
  rules: AddressRules;
  checkpoints: Checkpoints;
}

const MOST_REDIRECTS = 5;
/** How often a file is begun anew in one call, because what came did not fit together, or an address ran out meanwhile. */
const MOST_ANEW = 2;

/** The state of one download. */
interface Progress {
  parts: DownloadParts;
  request: DownloadRequest;
  file: UnfinishedFile;
  sink: FileSink;
  /** Where it was led by now. */
  at: URL;
  begunAnew: number;
}

/** One file from its first request until it is whole in the spool, or will not be. */
export async function downloadFile(parts: DownloadParts, request: DownloadRequest): Promise<Downloaded> {
  const { spool, name, url } = request;
  request.signal.throwIfAborted();
  const file = await UnfinishedFile.open({
    folder: spool,
    name,
    from: url.origin + url.pathname,
    checkpoints: parts.checkpoints,
  });
  const { origins, isCrowded, clock } = parts.client;
  const isWanted = (): boolean => progress.at.origin === origins.home && isCrowded('bulk');
  const sink = new FileSink({ request, file, clock, isWanted });
  const progress: Progress = { parts, request, file, sink, at: url, begunAnew: 0 };
  try {
    const downloaded = await rounds(progress);
    if (downloaded.kind !== 'fetched') await file.remove();
    return downloaded;
  } catch (error) {
    return await ended(progress, error);
  }
}

async function rounds(progress: Progress): Promise<Downloaded> {
  for (;;) {
    const answer = await ask(progress);
    const downloaded = await REACTIONS[codeOf(answer)](progress, answer);
    if (downloaded !== null) return downloaded;
    if (answer.code !== 'rest') progress.begunAnew += 1;
  }
}

async function ask(progress: Progress): Promise<ApiAnswer> {
  const { request, sink } = progress;
  progress.at = request.url;
  const { url, meter, signal } = request;
  const asked: ApiRequest = { url, lane: 'bulk', meter, signal, into: sink };
  return runRequest(loopParts(progress), request.isOwn(url) ? asked : { ...asked, as: 'nobody' });
}

/** The client's own parts, and beyond its origin those that know nothing of it. */
function loopParts(progress: Progress): LoopParts {
  const { parts, request, sink } = progress;
  const { client, elsewhere, rules } = parts;
  const { home, secrets } = client.origins;
  const isHome = (url: URL): boolean => url.origin === home;
  const quota = (): RetryQuota => (isHome(progress.at) ? client.quota : elsewhere.quotaOf(progress.at.origin));
  const judge = (url: URL): void => {
    progress.at = url;
    if (!isHome(url)) refusePrivate(url, rules);
  };
  return {
    ...client,
    // An address of a record is asked as it stands, and as anybody would.
    ...(request.isOwn(request.url)
      ? {}
      : { homeHeaders: client.plainHeaders, credentials: { ...client.credentials, queryNames: [] } }),
    exchange: (wire, account) => (isHome(wire.url) ? client : elsewhere).exchange(wire, account),
    governorOf: (url) => (isHome(url) ? client : elsewhere).governorOf(url),
    judge: (seen) => {
      const { judge: usual } = isHome(progress.at) ? client : elsewhere;
      const isOwn = isHome(progress.at) && request.isOwn(progress.at);
      return judgeFile({ received: sink.received, asked: sink.asked, isOwn, judge: usual }, seen);
    },
    quota: { take: () => quota().take(), refund: () => quota().refund() },
    origins: { home, secrets, isOwn: request.isOwn, allowed: ANY_ORIGIN, judge, mostHops: MOST_REDIRECTS },
  };
}

const ANY_ORIGIN = { has: () => true };

type Reaction = (progress: Progress, answer: ApiAnswer) => Promise<Downloaded | null> | Downloaded | null;

/** How a download reacts to each answer: with its end, or with null for another round. */
const REACTIONS: Readonly<Record<FileCode, Reaction>> = {
  file: settle,
  unchanged: () => ({ kind: 'unchanged' }),
  gone: () => ({ kind: 'gone' }),
  expired: ({ begunAnew, at, request: { url } }, { status }) => {
    // Where the service leads to is led to anew; only an address of a record is for its record to tell.
    if (at.origin !== url.origin && begunAnew < MOST_ANEW) return null;
    return { kind: 'expired', reason: `${at.host} answered ${status}` };
  },
  refused: ({ sink: { received } }) => {
    if (received?.kind !== 'refused') throw new Error('a file that nobody has refused');
    return { kind: 'refused', ...received.refusal };
  },
  rest: () => null,
  file_address: ({ at }) => ({
    kind: 'refused',
    code: 'file_address',
    reason: `${at.hostname} is, or resolves to, no address of the public internet`,
  }),
  anew: async ({ begunAnew, file, sink: { received } }) => {
    await file.begin(null);
    if (begunAnew < MOST_ANEW) return null;
    const reason = received?.kind === 'wrong_part' ? received.reason : 'no rest of what it had begun with';
    throw new SyncError('bad_http', `the service sends ${reason}`, { recovery: 'retry' });
  },
};

/** What a profile leaves out by a rule of its own is not there for us. */
function codeOf({ code }: ApiAnswer): FileCode {
  return isFileCode(code) ? code : 'gone';
}

function isFileCode(code: string): code is FileCode {
  return Object.hasOwn(REACTIONS, code);
}

/** A file whose bytes are all here: what they are decides. */
async function settle({ request, file, begunAnew }: Progress, { headers }: ApiAnswer): Promise<Downloaded | null> {
  const { bytes, path, head } = file;
  const known = request.keepsSmall === true && file.isInMemory && bytes > 0 ? await kindOf(head, null) : null;
  // What the head does not tell is looked for in the file.
  const isSmall = known !== null && known.size !== null;
  const sha256 = await file.finish(isSmall);
  const kind = isSmall ? known : await kindOf(head, { path, bytes });
  const fault = sizeFault(bytes, request) ?? kindFault(kind, request, true) ?? hashFault(sha256, request);
  if (fault?.code === 'file_differs' && file.isPieced && begunAnew < MOST_ANEW) {
    await file.begin(null);
    return null;
  }
  if (fault !== null) return { kind: 'refused', ...fault };
  return {
    kind: 'fetched',
    path,
    ...(isSmall ? { content: head } : {}),
    sha256,
    bytes,
    type: kind.type,
    width: kind.size?.width ?? null,
    height: kind.size?.height ?? null,
    etag: headerText(headers, 'etag') ?? file.validator?.etag ?? null,
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

/** The end of a download by an error; what is here of the file is kept where another call can go on with it. */
async function ended({ parts, file, at }: Progress, error: unknown): Promise<Downloaded> {
  const code = error instanceof SyncError ? error.code : '';
  // What finds no room leaves its own to others.
  await (code === 'file_store_full' ? file.remove() : file.leave());
  const isOfStore = code.startsWith('file_store_');
  if (!(error instanceof SyncError) || error instanceof DeferredError || isOfStore) throw error;
  if (REFUSED.has(error.code)) {
    await file.remove();
    return { kind: 'refused', code: 'file_address', reason: error.message };
  }
  if (at.origin !== parts.client.origins.home) throw errorElsewhere(error, at.host);
  if (!OF_ONE_FILE.has(error.code)) throw error;
  const { message, hint, requestId } = error;
  throw new SyncError(code, message, { recovery: 'retry', hint, requestId, cause: error });
}
