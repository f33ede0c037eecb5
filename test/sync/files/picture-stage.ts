import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { objectPath } from '../../../src/object-store/object-store.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { ResourceReport } from '../../../src/sync/report.ts';
import type { FileRow } from '../../../src/database/own-tables.ts';
import type { TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { pictureService, sha256, type PictureService } from './picture-service.ts';

export interface PictureStage extends Journey {
  service: PictureService;
  /** A run of `images` with its files, in an app of its own. */
  walk(command?: 'backfill' | 'sync', clock?: Clock): Promise<ResourceReport>;
  /** Rows of files in the order of records, fields, positions and versions. */
  rows(): Promise<FileRow[]>;
  /** Hashes of what stands in the store, each checked against its bytes. */
  objects(): string[];
  /** What a record shows now, as `status` or the text of its content; null if it has no file. */
  shown(id: string, field?: string, position?: number): Promise<string | null>;
}

interface StageOptions {
  files: object | object[];
  resource?: Record<string, unknown>;
  settings?: Record<string, unknown>;
}

/** A copy of a service of pictures, with a store beside it; nothing is synced yet. */
export async function pictureStage(
  database: TestDatabase,
  { files, resource = {}, settings = {} }: StageOptions,
): Promise<PictureStage> {
  const service = await pictureService();
  const stage = await journey({
    database,
    source: {
      base_url: service.url,
      resources: ['images'],
      // Half of a handful of records may go at once.
      deletes: { max_part: 1 },
      files: { store: 'disk:files', allow_hosts: ['127.0.0.1'], ...settings },
    },
    // One that waits for a service is not what these tests are about.
    profile: { http: { attempts: 1 }, resources: { images: { files, ...resource } } },
  });
  const rows = (): Promise<FileRow[]> =>
    stage.read((db) =>
      db.prepare<[], FileRow>('SELECT * FROM _sync_files ORDER BY resource, record_id, field, position, version').all(),
    );
  const at = (hash: string): string => path.join(stage.folder, 'files', objectPath(hash));
  return {
    ...stage,
    service,
    walk: async (command = 'sync', clock) => {
      const { resources } = await stage.run(command, { files: true, ...(clock === undefined ? {} : { clock }) });
      if (resources[0] === undefined) throw new Error('no resource was run');
      return resources[0];
    },
    rows,
    objects: () => objectsIn(path.join(stage.folder, 'files')),
    shown: async (id, field = 'file', position = 0) => {
      const row = (await rows()).find(
        (one) => one.record_id === id && one.field === field && one.position === position && one.valid_to === null,
      );
      if (row === undefined) return null;
      return row.sha256 === null ? row.status : readFileSync(at(row.sha256)).subarray(70).toString();
    },
  };
}

/** Throws if one is not what its name says. */
function objectsIn(store: string): string[] {
  if (!existsSync(store)) return [];
  const names = readdirSync(store, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /^[0-9a-f]{64}$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath, entry.name));
  for (const name of names) {
    if (sha256(readFileSync(name)) !== path.basename(name)) throw new Error(`${name} is not what it should be`);
  }
  return names.map((name) => path.basename(name)).toSorted();
}
