// Writes an export to a prefix of an S3 bucket. Two exports to one prefix do not mix: the manifest is replaced only if it is
// still the one that was read.
import { text as textIn } from 'node:stream/consumers';
import { ConfigError } from '../../model/errors.ts';
import { bucketAccess, type BucketAccess, BucketClient, type BucketErrors } from '../../object-store/bucket.ts';
import { exportBusy, type ExportTarget, MANIFEST, type TargetFile } from './export-target.ts';

const ADDRESS = /^s3:\/\/([^/?#]+)(?:\/(.*))?$/s;

const ERRORS: BucketErrors = {
  refused: 'export_unwritable',
  failed: 'export_failed',
  again: 'run the same command again: the files that the manifest lists are complete',
  recovery: 'stop',
};

export function isBucket(target: string): boolean {
  return target.startsWith('s3:');
}

/** Reads the access from the environment; the caller masks its secrets. Throws `ConfigError`. */
export function s3Access(address: string, env: NodeJS.ProcessEnv): { access: BucketAccess; prefix: string } {
  const [, bucket, rest = ''] = ADDRESS.exec(address) ?? [];
  if (bucket === undefined) {
    throw new ConfigError('usage', `no bucket is named by ${address}`, { hint: 'such as s3://bucket/prefix' });
  }
  const access = bucketAccess(bucket, env, { shown: address, credentials: 'export_unwritable' });
  const prefix = rest.replace(/\/+$/, '');
  return { access, prefix: prefix === '' ? '' : `${prefix}/` };
}

export function openBucket(
  { access, prefix }: { access: BucketAccess; prefix: string },
  dependencies: { signal: AbortSignal },
): ExportTarget {
  const client = new BucketClient(access, ERRORS, dependencies.signal);
  const shown = `s3://${access.bucket}/${prefix}`;
  const key = prefix + MANIFEST;
  /** The manifest as it was last read; null if there was none. */
  let lastRead: { text: string; etag: string } | null = null;
  return {
    shown,
    isLocked: false,
    list: () => listFiles(client, prefix),
    readManifest: async () => {
      const found = await client.get(key);
      lastRead = found === null ? null : { text: await textIn(found.body), etag: found.etag };
      return lastRead?.text ?? null;
    },
    write: (path, body) => client.upload(prefix + path, body),
    putManifest: async (text, previous) => {
      if (previous !== (lastRead?.text ?? null)) throw exportBusy(shown, '');
      await putManifest(client, { key, text, etag: lastRead?.etag ?? null, shown });
    },
    remove: async (paths) => {
      for (const path of paths) await client.remove(prefix + path);
    },
    close: async () => client.close(),
  };
}

async function listFiles(client: BucketClient, prefix: string): Promise<TargetFile[]> {
  const files: TargetFile[] = [];
  for await (const { key, changedAt } of client.list(prefix)) {
    const path = key.slice(prefix.length);
    // Some consoles create an object for the prefix itself.
    if (path !== '') files.push({ path, changedAt });
  }
  return files;
}

/** Replaces the manifest if its ETag is still `etag`. Services without conditional writes replace it in any case. */
async function putManifest(
  client: BucketClient,
  { key, text, etag, shown }: { key: string; text: string; etag: string | null; shown: string },
): Promise<void> {
  const only = etag === null ? 'absent' : { etag };
  if ((await client.putIf(key, Buffer.from(text), only, 'application/json')) === 'written') return;
  // An earlier attempt without a response may have written it.
  const current = await client.get(key);
  if (current === null || (await textIn(current.body)) !== text) throw exportBusy(shown, '');
}
