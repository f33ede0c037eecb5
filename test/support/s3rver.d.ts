/** The package has no types of its own. */
declare module '@20minutes/s3rver' {
  import type { Readable } from 'node:stream';

  export default class S3rver {
    store: {
      /** Returns how many bytes it has written, and their MD5 in hex. */
      putContent(file: string, content: Readable | Buffer): Promise<[bytes: number, md5: string]>;
    };
    constructor(options: {
      port: number;
      address: string;
      silent: boolean;
      directory: string;
      allowMismatchedSignatures: boolean;
      configureBuckets: readonly { name: string }[];
    });
    run(): Promise<{ port: number }>;
    close(): Promise<void>;
  }
}
