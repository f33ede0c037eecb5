/** The setting `files` of a source: its schema, and which files go to which store. */
import { z } from 'zod';
import type { SettingsFinding } from './file/yaml-file.ts';
import { documented, timeSpan } from './profile/basic-fields.ts';
import { type FileProfile, storeAddress, type StoreAddress, storeOf, storePlace } from './profile/file-fields.ts';
import type { Profile } from './profile/profile.ts';

/** Files of a resource that are fetched, and where to. */
export interface KeptFile extends Omit<FileProfile, 'store'> {
  readonly store: StoreAddress;
}

/** The setting `files`, as the program works with it; durations are milliseconds. */
export interface FilesSettings extends Readonly<Omit<FilesFile, 'store'>> {
  /** Rights of the files that are made, such as `0o640`. */
  readonly file_mode: number;
  /** The variables of the environment that tell where a bucket is and who asks; none without one. */
  readonly environment: Readonly<Record<string, string>>;
  /** What is fetched, by resource; one without files that have a store is not in it. */
  readonly kept: Readonly<Record<string, readonly KeptFile[]>>;
}

interface FilesPlace {
  cwd: string;
  env: NodeJS.ProcessEnv;
  fileMode: number;
}

interface Source {
  name: string;
  files: FilesFile;
  profile: Profile;
  resources: readonly string[];
}

/** The setting of a source; a relative path of a store starts at `cwd`. */
export function filesOf(source: Source, { cwd, env, fileMode }: FilesPlace): FilesSettings {
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

/** What is fetched of a source, by resource. */
function resolveKeptFiles({ name, files, profile, resources }: Source, cwd: string): FilesSettings['kept'] {
  const { store: usual } = files;
  const kept = resources.flatMap((resource): [string, KeptFile[]][] => {
    const entries = (profile.resources[resource]?.files ?? []).flatMap((file): KeptFile[] => {
      const store = storeOf(file.store ?? usual ?? '', name, cwd);
      return store === null ? [] : [{ ...file, store }];
    });
    return entries.length === 0 ? [] : [[resource, entries]];
  });
  return Object.fromEntries(kept);
}

/** The profile with the store of each file that is fetched: its own, or the source's usual one. */
export function withDefaultStore(profile: Profile, { store: usual }: FilesFile): Profile {
  if (usual === null) return profile;
  const resources = Object.entries(profile.resources).map(([name, resource]) => {
    const files = resource.files.map((file) => ({ ...file, store: file.store ?? usual }));
    return [name, files.length === 0 ? resource : { ...resource, files }] as const;
  });
  return { ...profile, resources: Object.fromEntries(resources) };
}

/** The stores of a source, each once. */
export function storesOf({ kept }: { kept: FilesSettings['kept'] }): StoreAddress[] {
  const stores = Object.values(kept).flatMap((files) => files.map(({ store }) => store));
  return [...new Map(stores.map((store) => [store.name, store])).values()];
}

/** Sources that would share a store: what `files prune` removes of one would be missing from the other. */
export function storeFindings(
  sources: readonly (readonly [string, { files: FilesFile; resources?: readonly string[] | undefined }])[],
  profiles: ReadonlyMap<string, Profile>,
  cwd: string,
): SettingsFinding[] {
  const taken = new Map<string, string>();
  return sources.flatMap(([name, { files, resources }]) => {
    const profile = profiles.get(name);
    if (profile === undefined) return [];
    const kept = resolveKeptFiles(
      { name, files, profile, resources: resources ?? Object.keys(profile.resources) },
      cwd,
    );
    return storesOf({ kept }).flatMap((store): SettingsFinding[] => {
      const place = storePlace(store);
      const other = taken.get(place) ?? name;
      taken.set(place, other);
      if (other === name) return [];
      const message = `expected a store of its own, such as one with {source} in it, got that of ${other}: ${store.name}`;
      return [{ path: ['sources', name, 'files', 'store'], part: 'value', message }];
    });
  });
}

/** Where the files of a source go, which its profile names resource by resource. */
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

type FilesFile = z.output<typeof filesSchema>;
