import type { Client } from '../../http/create-client.ts';
import { createDownloader } from '../../http/download/create-downloader.ts';
import type { Downloader } from '../../http/download/create-downloader.ts';
import { messageOf } from '../../model/errors.ts';
import { openStores } from '../../object-store/open-stores.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { storesOf } from '../../settings/file-stores.ts';
import { FILE_LIMITS, ownGovernor, type KnownLimits } from '../../state/open-governor.ts';
import type { StoreAddress } from '../../source/store-address.ts';
import { fetchFiles, type FilesContext, type FilesRequest } from './fetch-files.ts';
import { ownedStores } from './owned-stores.ts';
import { FileFigures, type FilesReport } from './report-files.ts';
import { tellNewestRuns } from './tell-runs.ts';

/** Fetches the files of one source. What is needed for it is opened with its first use. */
export interface FilesLane {
  /** Throws `ConfigError` if a store cannot be used at all. */
  check(): Promise<void>;
  /** Throws as `fetchFiles` does. */
  fetch(request: FilesRequest): Promise<FilesReport[]>;
  /** How the files of these resources stand, without asking for any; `stopped` is what kept them from being fetched. */
  standing(resources: readonly string[], stopped?: unknown): Promise<FilesReport[]>;
  /** Has the newest run of each resource tell it. */
  tell(reports: readonly FilesReport[]): Promise<void>;
  storeAt(address: StoreAddress): Promise<ObjectStore>;
  close(): Promise<void>;
}

interface LaneOptions extends Omit<FilesContext, 'downloader' | 'storeAt'>, KnownLimits {
  client: Client;
  /** The longest wait that a service may ask for, and how long ended runs are remembered, in milliseconds. */
  maxWaitMs: number;
  keepRunsMs: number;
}

/** Opens nothing by itself. */
export function createFilesLane(options: LaneOptions): FilesLane {
  const { settings, clock, client, warehouse, scrub } = options;
  const stores = openStores({ clock, isMade: true });
  let downloader: Downloader | null = null;
  const storeAt = ownedStores({
    warehouse,
    storeAt: (address: StoreAddress): Promise<ObjectStore> => stores.at(address, settings),
  });
  const openDownloader = (): Downloader =>
    createDownloader({
      client: client.parts,
      allowHosts: settings.allow_hosts,
      openGovernor: (origin) => ownGovernor(options, origin, FILE_LIMITS),
    });
  return {
    storeAt,
    check: async () => {
      for (const address of storesOf(settings)) await storeAt(address);
    },
    fetch: async (request) => {
      if (request.resources.every((resource) => settings.kept[resource] === undefined)) return [];
      downloader ??= openDownloader();
      return fetchFiles({ ...options, downloader, storeAt }, request);
    },
    standing: (resources, stopped) => {
      const why = stopped === undefined ? [] : [scrub(messageOf(stopped))];
      return new FileFigures().report(warehouse, resources, why);
    },
    tell: (reports) => tellNewestRuns(options, reports),
    close: async () => {
      await downloader?.close();
      await stores.close();
    },
  };
}
