import { resolve } from 'node:path';
import { z } from 'zod';

/** Where the bytes of a source's files stand. */
export type StoreAddress =
  | {
      readonly kind: 'disk';
      /** As in the settings, with the source's name filled in; what rows are kept under, so that a folder may be moved. */
      readonly name: string;
      /** Absolute path. */
      readonly folder: string;
    }
  | {
      readonly kind: 's3';
      readonly name: string;
      readonly bucket: string;
      /** Without slashes at either end; empty for the bucket itself. */
      readonly prefix: string;
    };

const DISK = /^disk:(?!\/\/)((?:[^{}\0]|\{source\})+)$/;
const S3 = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/((?:[^{}?#\0]|\{source\})*))?$/;
const EXPECTED = 'expected disk:<path> or s3://bucket/prefix, where {source} may stand in the path or the prefix';

/** An address of a store, as it is written in settings and profiles. */
export const storeAddress = z
  .string(EXPECTED)
  .refine((text) => DISK.test(text) || S3.test(text), EXPECTED)
  .meta({ examples: ['disk:data/{source}/files', 's3://bucket/prefix'] });

/** The address of one source; a relative path starts at `cwd`. Null for a text that `storeAddress` does not admit. */
export function storeOf(text: string, source: string, cwd: string): StoreAddress | null {
  const name = text.replaceAll('{source}', source);
  const folder = DISK.exec(name)?.[1];
  if (folder !== undefined) return { kind: 'disk', name, folder: resolve(cwd, folder) };
  const [, bucket, prefix = ''] = S3.exec(name) ?? [];
  return bucket === undefined ? null : { kind: 's3', name, bucket, prefix: prefix.replace(/^\/+|\/+$/g, '') };
}

/** The same text for two addresses that lead to the same place. */
export function storePlace(address: StoreAddress): string {
  return address.kind === 'disk' ? `disk:${address.folder}` : `s3://${address.bucket}/${address.prefix}`;
}
