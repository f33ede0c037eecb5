import { createHash } from 'node:crypto';
import type { App } from '../../src/server/app.ts';
import { saveObject } from '../../src/database/state/file-contents.ts';
import { insertFiles } from '../../src/database/state/files.ts';
import type { FileObjectRow, FileRow } from '../../src/database/own-tables.ts';

const STORE = 'disk:files';

/** A hash that is not that of any bytes. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** A picture of an image that is here, and was from the beginning; with other fields laid over. */
export function fileRow(id: string, fields: Partial<FileRow> = {}): FileRow {
  const sha256 = fields.sha256 === undefined ? hashOf(id) : fields.sha256;
  const none = { next_url: null, last_modified: null, due_at: null, code: null, error: null, valid_to: null };
  return {
    resource: 'images',
    record_id: id,
    field: 'file',
    position: 0,
    version: 1,
    url: `https://cms.example.com/v1/images/${id}/file`,
    status: 'stored',
    store: STORE,
    bytes: 1_000,
    type: 'image/png',
    width: 640,
    height: 480,
    etag: '"1"',
    record_hash: 'h',
    attempts: 0,
    fetched_at: '2025-11-01 00:00:00.000',
    valid_from: '2025-11-01 00:00:00.000',
    ...none,
    ...fields,
    sha256,
  };
}

/** Puts rows of files into a warehouse, with those of the contents that they name. */
export async function putFiles({ warehouse }: Pick<App, 'warehouse'>, rows: readonly FileRow[]): Promise<void> {
  const objects = rows.flatMap(({ store, sha256, bytes, type, width, height, fetched_at }): FileObjectRow[] => {
    if (store === null || sha256 === null || bytes === null || type === null || fetched_at === null) return [];
    return [{ store, sha256, bytes, type, width, height, stored_at: fetched_at, checked_at: null, missing: 0 }];
  });
  await warehouse.apply([
    ...insertFiles(warehouse.own, rows),
    ...objects.flatMap((object) => saveObject(warehouse.own, object)),
  ]);
}
