/**
 * The setting `files` of a source: its schema, and which files of the records go to which store (`resolveFiles`). A store is
 * a folder (`disk:data/{source}/files`) or a bucket (`s3://bucket/prefix`).
 */
import { z } from 'zod';
import type { SettingsFinding } from './file/yaml-file.ts';
import { documented, timeSpan } from './profile/basic-fields.ts';
import { type FileProfile, storeAddress, type StoreAddress, storeOf, storeLocation } from './profile/file-fields.ts';
import type { Profile } from './profile/profile.ts';

/** Files of a resource that are downloaded, and the store for them. */
export interface KeptFile extends Omit<FileProfile, 'store'> {
  readonly store: StoreAddress;
}

/** The resolved setting `files` of a source; durations are milliseconds. */
export interface FilesSettings extends Readonly<Omit<FilesFields, 'store'>> {
  /** Mode of created files, such as `0o640`. */
  readonly file_mode: number;
  /** Environment variables for a bucket (`AWS_*`); empty without one. */
  readonly environment: Readonly<Record<string, string>>;
  /** Files to download by resource; resources without any are absent. */
  readonly kept: Readonly<Record<string, readonly KeptFile[]>>;
}

/** A source whose files are resolved; files of its profile without a store have the default store already. */
interface SourceWithFiles {
  name: string;
  profile: Profile;
  resources: readonly string[];
}

/** Resolves the setting of a source; `cwd` is the base of relative paths. */
export function resolveFiles(
  source: SourceWithFiles & { files: FilesFields },
  { cwd, env, fileMode }: { cwd: string; env: NodeJS.ProcessEnv; fileMode: number },
): FilesSettings {
  const { store: _, ...rest } = source.files;
  const kept = resolveKeptFiles(source, cwd);
  const inBucket = storesOf({ kept }).some(({ kind }) => kind === 's3');
  return { ...rest, kept, file_mode: fileMode, environment: inBucket ? bucketVariables(env) : {} };
}

function bucketVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith('AWS_') && entry[1] !== undefined,
    ),
  );
}

/** Returns the files to download by resource, each with its store. */
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

/** Adds the default store of the source to files of the profile without a store. */
export function withDefaultStore(profile: Profile, defaultStore: string | null): Profile {
  if (defaultStore === null) return profile;
  const resources = Object.entries(profile.resources).map(([name, resource]) => {
    const files = resource.files.map((file) => ({ ...file, store: file.store ?? defaultStore }));
    return [name, { ...resource, files }] as const;
  });
  return { ...profile, resources: Object.fromEntries(resources) };
}

/** The stores of a source, each once. */
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
