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
  const { port } = await server.run();
  onTestFinished(() => server.close());
  return { env: bucketEnvironment(port, 'S3RVER', 'S3RVER'), folder };
}

export function bucketEnvironment(port: number, key: string, secret: string): NodeJS.ProcessEnv {
  return {
    AWS_ACCESS_KEY_ID: key,
    AWS_SECRET_ACCESS_KEY: secret,
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
    AWS_REGION: 'us-east-1',
  };
}
