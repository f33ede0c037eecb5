import { ConfigError } from '../../model/errors.ts';

/** Where a bucket is, and who asks. */
export interface BucketAccess {
  bucket: string;
  region: string;
  /** Of a service that is compatible; null for Amazon's own. */
  endpoint: string | null;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
}

/** What is taken of the environment; its secrets are to be hidden. Throws `ConfigError`: `usage`, or `credentials` of the codes. */
export function bucketAccess(
  bucket: string,
  env: NodeJS.ProcessEnv,
  { shown, credentials }: { shown: string; credentials: string },
): BucketAccess {
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = env;
  if (accessKeyId === '' || secretAccessKey === '') {
    throw new ConfigError(credentials, `${shown}: there are no credentials for it`, {
      hint: 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN where the key is for a time only, and AWS_REGION; AWS_ENDPOINT_URL for a service that is not Amazon',
    });
  }
  return {
    bucket,
    region: env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'] ?? 'us-east-1',
    endpoint: endpointOf(env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'] ?? ''),
    accessKeyId,
    secretAccessKey,
    sessionToken: env['AWS_SESSION_TOKEN'],
  };
}

function endpointOf(text: string): string | null {
  if (text === '') return null;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw new ConfigError('usage', 'AWS_ENDPOINT_URL is no address', { hint: 'such as https://storage.example.com' });
}
