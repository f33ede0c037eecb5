import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import { exportBusy, MANIFEST, type PartSink, type Place, type PlacedFile } from './place.ts';
import { elementOf, elementsOf, s3Client, type S3Access, type S3Client } from './s3-client.ts';

const ADDRESS = /^s3:\/\/([^/?#]+)(?:\/(.*))?$/s;
/** A part of an object that is uploaded; the least that a service takes is 5 MiB. */
const CHUNK_BYTES = 8 * 1_048_576;

export function isBucket(place: string): boolean {
  return place.startsWith('s3:');
}

/** What is taken of the environment; its secrets are to be hidden. Throws `ConfigError`. */
export function s3Access(address: string, env: NodeJS.ProcessEnv): { access: S3Access; prefix: string } {
  const [, bucket, rest = ''] = ADDRESS.exec(address) ?? [];
  if (bucket === undefined) {
    throw new ConfigError('usage', `no bucket is named by ${address}`, { hint: 'such as s3://bucket/prefix' });
  }
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = env;
  if (accessKeyId === '' || secretAccessKey === '') {
    throw new ConfigError('export_credentials', `${address}: there are no credentials for it`, {
      hint: 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN where the key is for a time only, and AWS_REGION; AWS_ENDPOINT_URL for a service that is not Amazon',
    });
  }
  const access = {
    bucket,
    region: env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1',
    endpoint: endpointOf(env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'] ?? ''),
    accessKeyId,
    secretAccessKey,
    sessionToken: env['AWS_SESSION_TOKEN'],
  };
  const prefix = rest.replace(/\/+$/, '');
  return { access, prefix: prefix === '' ? '' : `${prefix}/` };
}

function endpointOf(text: string): string | null {
  if (text === '') return null;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw new ConfigError('usage', 'AWS_ENDPOINT_URL is no address', { hint: 'such as https://storage.example.com' });
}

/** What lies below a prefix of a bucket. */
export function openBucket(
  { access, prefix }: { access: S3Access; prefix: string },
  world: { clock: Clock; signal: AbortSignal },
): Place {
  const ask = s3Client(access, world);
  // What is left of an export that was stopped must go all the same.
  const afterwards = s3Client(access, { clock: world.clock, signal: new AbortController().signal });
  const shown = `s3://${access.bucket}/${prefix}`;
  let known: { text: string; etag: string } | null = null;
  return {
    shown,
    isLocked: false,
    list: () => listed(ask, prefix),
    readManifest: async () => {
      const { status, text, etag } = await ask({ method: 'GET', key: prefix + MANIFEST, accepted: [404] });
      // A bucket that is missing is no place without a manifest.
      if (status === 404 && elementOf(text, 'Code') === 'NoSuchBucket') await ask({ method: 'GET' });
      known = status === 404 ? null : { text, etag };
      return known?.text ?? null;
    },
    create: (path) => Promise.resolve(upload(ask, afterwards, prefix + path)),
    putManifest: async (text, previous) => {
      if (previous !== (known?.text ?? null)) throw exportBusy(shown, '');
      await putManifest(ask, { key: prefix + MANIFEST, text, etag: known?.etag ?? null, shown });
    },
    remove: async (paths) => {
      for (const path of paths) await afterwards({ method: 'DELETE', key: prefix + path, accepted: [404] });
    },
    close: () => Promise.resolve(),
  };
}

async function listed(ask: S3Client, prefix: string): Promise<PlacedFile[]> {
  const files: PlacedFile[] = [];
  for (let token: string | null = ''; token !== null;) {
    const after = token === '' ? {} : { 'continuation-token': token };
    const { text }: { text: string } = await ask({ method: 'GET', query: { 'list-type': '2', prefix, ...after } });
    for (const entry of elementsOf(text, 'Contents')) {
      const path = (elementOf(entry, 'Key') ?? '').slice(prefix.length);
      // The prefix itself, as some consoles make it.
      if (path !== '') files.push({ path, changedAt: Date.parse(elementOf(entry, 'LastModified') ?? '') });
    }
    token = elementOf(text, 'IsTruncated') === 'true' ? elementOf(text, 'NextContinuationToken') : null;
  }
  return files;
}

const CONFLICTS = [409, 412];
/** Of services that do not know conditions. */
const UNKNOWN_CONDITION = 501;

/** On condition that the manifest is still the one that was read, where the service knows such a thing. */
async function putManifest(
  ask: S3Client,
  { key, text, etag, shown }: { key: string; text: string; etag: string | null; shown: string },
): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const condition = etag === null ? { 'if-none-match': '*' } : { 'if-match': etag };
  const put = { method: 'PUT', key, body: Buffer.from(text) } as const;
  const accepted = [...CONFLICTS, UNKNOWN_CONDITION];
  const { status } = await ask({ ...put, headers: { ...headers, ...condition }, accepted });
  if (status === UNKNOWN_CONDITION) await ask({ ...put, headers });
  if (!CONFLICTS.includes(status)) return;
  // A first attempt that got no answer may have written it.
  const { text: there } = await ask({ method: 'GET', key, accepted: [404] });
  if (there !== text) throw exportBusy(shown, '');
}

/** An object: in one request if it is small, else in parts as its bytes come. */
function upload(ask: S3Client, afterwards: S3Client, key: string): PartSink {
  let waiting: Uint8Array[] = [];
  let size = 0;
  let id: string | null = null;
  const etags: string[] = [];
  const send = async (): Promise<void> => {
    const body = Buffer.concat(waiting);
    [waiting, size] = [[], 0];
    id ??= elementOf((await ask({ method: 'POST', key, query: { uploads: '' } })).text, 'UploadId');
    if (id === null) throw new SyncError('export_failed', `${key}: the service began no upload`, { recovery: 'stop' });
    const query = { partNumber: String(etags.length + 1), uploadId: id };
    etags.push((await ask({ method: 'PUT', key, query, body })).etag);
  };
  return {
    write: async (bytes) => {
      waiting.push(bytes);
      size += bytes.length;
      if (size >= CHUNK_BYTES) await send();
    },
    close: async () => {
      if (id === null) {
        await ask({ method: 'PUT', key, body: Buffer.concat(waiting) });
        return;
      }
      if (size > 0) await send();
      const parts = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      const { text } = await ask({ method: 'POST', key, query: { uploadId: id }, body });
      // It may answer 200 first and fail then.
      if (elementOf(text, 'Code') !== null) {
        throw new SyncError('export_failed', `${key}: ${elementOf(text, 'Code') ?? ''}`, {
          recovery: 'stop',
          hint: 'run the same command again: what the manifest lists is still whole',
        });
      }
    },
    abort: async () => {
      if (id === null) return;
      const query = { uploadId: id };
      await afterwards({ method: 'DELETE', key, query, accepted: [404] }).catch(() => undefined);
    },
  };
}
