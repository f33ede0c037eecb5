import { expect, it } from 'vitest';
import type { StatusSnapshot } from '../../src/server/status/snapshot.ts';
import { eitherDatabase } from '../support/databases.ts';
import { resourceIn, servingStage } from '../support/serving.ts';

it.each(eitherDatabase(import.meta.filename))(
  'status, page and metrics count the files of a source, on $name',
  { timeout: 60_000 },
  async (database) => {
    const stage = await servingStage({
      database,
      isInside: true,
      sandbox: {
        generate: { images: 6 },
        fault: [{ fault: 'status', status: 404, path: '000000003/file' }],
      },
      source: { files: { store: 'disk:pictures' } },
    });
    await stage.run('backfill');
    const serving = await stage.serve();
    const get = async (at: string): Promise<string> => (await fetch(`${serving.url}${at}`)).text();
    await expect.poll(() => get('/readyz'), { timeout: 10_000 }).toContain('"ready": true');
    const status: StatusSnapshot = JSON.parse(await get('/status.json'));
    const { files } = resourceIn(status, 'images');
    expect(files).toMatchObject({ stored: 5, failed: 0, waiting: 0, gone: 1, trouble: null });
    expect(await get('/sources/blog')).toContain('Files of blog');
    const metrics = await get('/metrics');
    expect(metrics).toContain('content_sync_files{source="blog",resource="images",status="stored"} 5');
    expect(metrics).toContain(`content_sync_files_bytes{source="blog",resource="images"} ${files?.bytes}`);
    expect(metrics).toContain('content_sync_files_stopped{source="blog"} 0');
  },
);
