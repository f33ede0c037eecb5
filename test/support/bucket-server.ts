import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import S3rver from '@20minutes/s3rver';
import { onTestFinished } from 'vitest';
import { tempFolder } from './temp-warehouse.ts';

export const BUCKET = 'exports';

export interface BucketServer {
  /** The environment that leads to it. */
  env: NodeJS.ProcessEnv;
  /** In which it keeps its objects. */
  folder: string;
}

/** An S3 server of the test's own, with one bucket, that checks signatures. */
export async function startBucketServer(): Promise<BucketServer> {
  const folder = tempFolder();
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    directory: folder,
    allowMismatchedSignatures: false,
    configureBuckets: [{ name: BUCKET }],
  });
  server.store.putContent = putWhole;
  const { port } = await server.run();
  onTestFinished(() => server.close());
  return { env: bucketEnvironment(port, 'S3RVER', 'S3RVER'), folder };
}

/**
 * In place of the server's own, which writes into the object while it comes: in a bucket nobody ever sees a part of one,
 * and where its sender is killed midway what was there before stays.
 */
async function putWhole(file: string, content: Readable | Buffer): Promise<[bytes: number, md5: string]> {
  const unfinished = `${file}.${randomUUID()}`;
  const hash = createHash('md5');
  let bytes = 0;
  try {
    await pipeline(
      Buffer.isBuffer(content) ? Readable.from([content]) : content,
      async function* counted(pieces: AsyncIterable<Buffer>) {
        for await (const piece of pieces) {
          hash.update(piece);
          bytes += piece.length;
          yield piece;
        }
      },
      createWriteStream(unfinished),
    );
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
  return [bytes, hash.digest('hex')];
}

export function bucketEnvironment(port: number, key: string, secret: string): NodeJS.ProcessEnv {
  return {
    AWS_ACCESS_KEY_ID: key,
    AWS_SECRET_ACCESS_KEY: secret,
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
    AWS_REGION: 'us-east-1',
  };
}
