import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { hurriedClock } from '../support/hurried-clock.ts';
import { servingStage, until, type ServingStage, uploadFile } from '../support/serving.ts';

const FILES = { at: '/images/{id}/file', types: ['image/svg+xml', 'image/*'] };

interface Shown {
  record_id: string;
  status: string;
  sha256: string | null;
}

function shown(stage: ServingStage): Promise<Shown[]> {
  return stage.read((db) => {
    const isThere = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = '_sync_files'`).get() !== undefined;
    const rows = `SELECT record_id, status, sha256 FROM _sync_files WHERE valid_to IS NULL ORDER BY record_id`;
    return isThere ? db.prepare<[], Shown>(rows).all() : [];
  });
}

describe.each(eitherDatabase(import.meta.filename))('serve with files, on $name', { timeout: 180_000 }, (database) => {
  it('fetches them behind the first walk, and those that webhooks tell of', async () => {
    const stage = await servingStage({
      database,
      isInside: true,
      // It looks once a minute for what webhooks tell of.
      clock: hurriedClock(20),
      sandbox: { generate: { images: 12 } },
      profile: { resources: { images: { files: FILES } } },
      source: { resources: ['images'], files: { store: 'disk:files' } },
    });
    const serving = await stage.serve();
    await stage.subscribe(serving);
    const stored = async (): Promise<number> => (await shown(stage)).filter(({ status }) => status === 'stored').length;
    await until('all stored', async () => (await stored()) === 12 || stored(), 90_000);
    const fetched = stage.sandbox.requests.entries().filter(({ path }) => path.endsWith('/file'));
    expect(fetched.map(({ path }) => path).toSorted()).toEqual(
      [...new Set(fetched.map(({ path }) => path))].toSorted(),
    );
    const [first] = stage.sandbox.store.list('images');
    const id = first?.id ?? '';
    const before = (await shown(stage)).find(({ record_id }) => record_id === id)?.sha256;
    await uploadFile(
      stage.sandbox,
      id,
      '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="3"/>',
      'image/svg+xml',
    );
    const now = async (): Promise<unknown> => (await shown(stage)).find(({ record_id }) => record_id === id);
    await until(
      'changed',
      async () => {
        const file = (await shown(stage)).find(({ record_id }) => record_id === id);
        return (file?.status === 'stored' && file.sha256 !== before) || now();
      },
      90_000,
    );
    const ended = await serving.stop();
    expect(ended.code).toBe(0);
    expect(ended.stderr).not.toMatch(/"level":(40|50|60)/);
  });
});
