/**
 * Files of records, such as the image at `url` of each record. The field `files` of a resource in the profile says where to
 * download them (`fileFields`), and the setting `files` of a source where to store them (`filesSchema`): in a folder
 * (`disk:data/{source}/files`) or a bucket (`s3://bucket/prefix`). `resolveFiles` combines both when settings are loaded.
 */
import { resolve } from 'node:path';
import { z } from 'zod';
import { parseBodyPath } from '../../model/body-path.ts';
import type { SettingsFinding } from '../file/yaml-file.ts';
import { byteSize, documented, fieldPath, recordsPath, templateSchema, timeSpan, variablesIn } from './basic-fields.ts';

/** Where the files of a source are stored. */
export type StoreAddress =
  | {
      readonly kind: 'disk';
      /** The setting with `{source}` filled in. Rows refer to it, so that the folder can be moved. */
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
const storeAddress = z
  .string(EXPECTED)
  .refine((text) => DISK.test(text) || S3.test(text), EXPECTED)
  .meta({ examples: ['disk:data/{source}/files', 's3://bucket/prefix'] });

/** Parses the address of a store for one source; null if it is invalid. `cwd` is the base of relative paths. */
export function storeOf(text: string, source: string, cwd: string): StoreAddress | null {
  const name = text.replaceAll('{source}', source);
  const folder = DISK.exec(name)?.[1];
  if (folder !== undefined) return { kind: 'disk', name, folder: resolve(cwd, folder) };
  const [, bucket, prefix = ''] = S3.exec(name) ?? [];
  return bucket === undefined ? null : { kind: 's3', name, bucket, prefix: prefix.replace(/^\/+|\/+$/g, '') };
}

/** Returns a text that is equal for two addresses of the same folder or bucket. */
function storeLocation(address: StoreAddress): string {
  return address.kind === 'disk' ? `disk:${address.folder}` : `s3://${address.bucket}/${address.prefix}`;
}

const RECORD_PREFIX = 'json:';
const LOCATION_EXPECTED =
  'expected a path such as /images/{id}/file, or json: and the place of an address in the record';

const pathTemplate = templateSchema(['id', 'partition']);

const fileLocation = z
  .string(LOCATION_EXPECTED)
  .superRefine((text, context) => {
    const message = locationFault(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .transform(parseFileLocation)
  .meta({
    description:
      'A path with `{id}`, or `json:` and the place of an address in the record. `gallery[*].url` gives several files.',
    examples: ['/images/{id}/file', 'json:url', 'json:gallery[*].url'],
  });

/** Where a file is downloaded from: a path of the service, or a URL in the record. */
type FileLocation = { kind: 'path'; path: string } | { kind: 'record'; place: string };

function parseFileLocation(text: string): FileLocation {
  return text.startsWith(RECORD_PREFIX)
    ? { kind: 'record', place: text.slice(RECORD_PREFIX.length) }
    : { kind: 'path', path: text };
}

function locationFault(text: string): string | null {
  if (text.startsWith(RECORD_PREFIX)) {
    const place = text.slice(RECORD_PREFIX.length);
    return place === '' || parseBodyPath(place) === null ? LOCATION_EXPECTED : null;
  }
  if (!/^\/[^?#]*$/.test(text) || !variablesIn(text).includes('id')) return LOCATION_EXPECTED;
  return pathTemplate.safeParse(text).error?.issues[0]?.message ?? null;
}

const fileSchema = z.strictObject({
  field: documented(
    z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name')
      .default('file'),
  )('Name of the file in the tables.', ['thumbnail']),
  at: fileLocation,
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
      .union([fileSchema.transform((file) => [file]), z.array(fileSchema).min(1)], {
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

/** A file of each record that is downloaded, because there is a store for it. */
export interface KeptFile extends Omit<FileProfile, 'store'> {
  readonly store: StoreAddress;
}

/** The resolved setting `files` of a source; durations are milliseconds. */
export interface FilesSettings extends Readonly<Omit<FilesFields, 'store'>> {
  /** Mode of created files, such as `0o640`. */
  readonly file_mode: number;
  /** Environment variables for a bucket (`AWS_*`); empty without one. */
  readonly environment: Readonly<Record<string, string>>;
  /** The files that are downloaded, by resource; resources without any are absent. */
  readonly kept: Readonly<Record<string, readonly KeptFile[]>>;
}

/** A source after `withDefaultStore`: a file of its profile has no store only if the source has no default store. */
interface SourceWithFiles {
  name: string;
  profile: { resources: Readonly<Record<string, { files: readonly FileProfile[] }>> };
  resources: readonly string[];
}

/** Resolves the setting `files` of a source; `cwd` is the base of relative paths. */
export function resolveFiles(
  source: SourceWithFiles & { files: FilesFields },
  { cwd, env, fileMode }: { cwd: string; env: NodeJS.ProcessEnv; fileMode: number },
): FilesSettings {
  const { store: _, ...rest } = source.files;
  const kept = resolveKeptFiles(source, cwd);
  const usesBucket = storesOf({ kept }).some(({ kind }) => kind === 's3');
  return { ...rest, kept, file_mode: fileMode, environment: usesBucket ? bucketVariables(env) : {} };
}

function bucketVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  const entries = Object.entries(env).flatMap(([name, value]): [string, string][] =>
    name.startsWith('AWS_') && value !== undefined ? [[name, value]] : [],
  );
  return Object.fromEntries(entries);
}

/** Returns the files that are downloaded, by resource, each with its store. */
function resolveKeptFiles({ name, profile, resources }: SourceWithFiles, cwd: string): FilesSettings['kept'] {
  const kept = resources.flatMap((resource): [string, KeptFile[]][] => {
    const entries = (profile.resources[resource]?.files ?? []).flatMap((file): KeptFile[] => {
      const store = storeOf(file.store ?? '', name, cwd);
      return store === null ? [] : [{ ...file, store }];
    });
    return entries.length === 0 ? [] : [[resource, entries]];
  });
  return Object.fromEntries(kept);
}

/** Returns the stores of a source, each once. */
export function storesOf({ kept }: { kept: FilesSettings['kept'] }): StoreAddress[] {
  const stores = Object.values(kept).flatMap((files) => files.map(({ store }) => store));
  return [...new Map(stores.map((store) => [store.name, store])).values()];
}

/** Finds sources that share a store, where `files prune` of one would remove files of the other. */
export function storeFindings(sources: readonly SourceWithFiles[], cwd: string): SettingsFinding[] {
  const owners = new Map<string, string>();
  return sources.flatMap((source) =>
    storesOf({ kept: resolveKeptFiles(source, cwd) }).flatMap((store): SettingsFinding[] => {
      const { name } = source;
      const location = storeLocation(store);
      const owner = owners.get(location) ?? name;
      owners.set(location, owner);
      if (owner === name) return [];
      const message = `expected a store of its own, such as one with {source} in it, got that of ${owner}: ${store.name}`;
      return [{ path: ['sources', name, 'files', 'store'], part: 'value', message }];
    }),
  );
}

export const filesSchema = z
  .strictObject({
    store: storeAddress.nullable().default(null).meta({
      description: 'disk:<path> or s3://bucket/prefix; null: only stores in the profile',
    }),
    allow_hosts: z
      .array(z.string().regex(/^(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?$/, 'expected a host, or host:port'))
      .default([])
      .meta({ description: 'Private hosts, or host:port, that files can come from' }),
    grace: timeSpan
      .prefault('7d')
      .meta({ description: 'How long `files prune` keeps earlier contents, except with history: all' }),
    recheck: documented(timeSpan.nullable().default(null))(
      'Age at which a file is requested again although its record did not change; null for never',
    ),
  })
  .meta({ description: 'Store of the files that the profile names' });

type FilesFields = z.output<typeof filesSchema>;
