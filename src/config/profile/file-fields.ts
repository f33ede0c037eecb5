/**
 * The field `files` of a resource: which files belong to a record (`fileFields`), such as the image at its `url`. Also parses
 * the addresses of the stores in which they are kept (`storeOf`).
 */
import { resolve } from 'node:path';
import { z } from 'zod';
import { parseBodyPath } from '../../model/body-path.ts';
import { byteSize, documented, fieldPath, recordsPath, templateSchema, variablesIn } from './basic-fields.ts';

/** Where the files of a source are stored. */
export type StoreAddress =
  | {
      readonly kind: 'disk';
      /** The setting with the name of the source; rows refer to it, so that the folder can be moved. */
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

/** The address of a store in settings and profiles. */
export const storeAddress = z
  .string(EXPECTED)
  .refine((text) => DISK.test(text) || S3.test(text), EXPECTED)
  .meta({ examples: ['disk:data/{source}/files', 's3://bucket/prefix'] });

/** Parses the address of a store for one source; `cwd` is the base of relative paths. Null if it is invalid. */
export function storeOf(text: string, source: string, cwd: string): StoreAddress | null {
  const name = text.replaceAll('{source}', source);
  const folder = DISK.exec(name)?.[1];
  if (folder !== undefined) return { kind: 'disk', name, folder: resolve(cwd, folder) };
  const [, bucket, prefix = ''] = S3.exec(name) ?? [];
  return bucket === undefined ? null : { kind: 's3', name, bucket, prefix: prefix.replace(/^\/+|\/+$/g, '') };
}

/** Returns a text that is equal for two addresses of the same folder or bucket. */
export function storeLocation(address: StoreAddress): string {
  return address.kind === 'disk' ? `disk:${address.folder}` : `s3://${address.bucket}/${address.prefix}`;
}

const OF_RECORD = 'json:';
const AT_EXPECTED = 'expected a path such as /images/{id}/file, or json: and the place of an address in the record';

const pathTemplate = templateSchema(['id', 'partition']);

const at = z
  .string(AT_EXPECTED)
  .superRefine((text, context) => {
    const message = atFault(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .transform(fileAt)
  .meta({
    description:
      'A path with `{id}`, or `json:` and the place of an address in the record. `gallery[*].url` gives several files.',
    examples: ['/images/{id}/file', 'json:url', 'json:gallery[*].url'],
  });

/** Where a file is downloaded from: a path of the service, or a URL in the record. */
type FileAt = { kind: 'path'; path: string } | { kind: 'record'; place: string };

function fileAt(text: string): FileAt {
  return text.startsWith(OF_RECORD)
    ? { kind: 'record', place: text.slice(OF_RECORD.length) }
    : { kind: 'path', path: text };
}

function atFault(text: string): string | null {
  if (text.startsWith(OF_RECORD)) {
    const place = text.slice(OF_RECORD.length);
    return place === '' || parseBodyPath(place) === null ? AT_EXPECTED : null;
  }
  if (!/^\/[^?#]*$/.test(text) || !variablesIn(text).includes('id')) return AT_EXPECTED;
  return pathTemplate.safeParse(text).error?.issues[0]?.message ?? null;
}

const fileSchema = z.strictObject({
  field: documented(
    z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name')
      .default('file'),
  )('Name of the file in the tables.', ['thumbnail']),
  at,
  when: documented(fieldPath.nullable().default(null))('A field that must be set; null if every record has a file.', [
    'has_file',
  ]),
  store: documented(storeAddress.nullable().default(null))(
    'Store of these files; null for `files.store` of the source.',
    ['disk:data/{source}/videos', 's3://bucket/prefix'],
  ),
  max_bytes: byteSize.prefault('100MB').meta({ description: 'A larger file is refused.', examples: ['20MB', '2GB'] }),
  max_pixels: documented(z.int().min(1).default(100_000_000))('An image with more pixels is refused.', [25_000_000]),
  types: z
    .array(z.string().regex(/^[a-z]+\/([a-z0-9][a-z0-9.+-]*|\*)$/, 'expected a type such as image/png or image/*'))
    .min(1)
    .default(['image/*', 'image/svg+xml', 'video/*', 'audio/*', 'application/pdf'])
    .meta({
      description:
        'Allowed types, detected by content. `image/*` does not include image/svg+xml, which can contain scripts.',
      examples: [['image/*'], ['image/*', 'image/svg+xml']],
    }),
  bytes: documented(recordsPath.nullable().default(null))('Field with the size of the file.', ['byte_size']),
  sha256: documented(recordsPath.nullable().default(null))('Field with its SHA-256 in hex.', ['sha256']),
});

/** The field `files` of a resource, parsed to a list. */
export const fileFields = {
  files: documented(
    z
      .union([fileSchema.transform((one) => [one]), z.array(fileSchema).min(1)], {
        error: 'expected { at, ... } or a list of such entries',
      })
      .nullable()
      .default(null)
      .transform((files) => files ?? [])
      .refine((files) => new Set(files.map(({ field }) => field)).size === files.length, {
        error: 'expected a `field` of its own for each entry',
      }),
  )('Files of each record, one entry or a list. Nothing is fetched without a store.', [
    { at: '/images/{id}/file', when: 'has_file', bytes: 'byte_size', sha256: 'sha256' },
    { at: 'json:url' },
  ]),
};

export type FileProfile = z.output<typeof fileSchema>;
