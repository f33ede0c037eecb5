import { describe, expect, it } from 'vitest';
import type { StoredWarning } from '../../../src/database/state/runs.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { picture } from './picture-service.ts';
import { pictureStage, type PictureStage } from './picture-stage.ts';

const FILES = { at: '/images/{id}/file', types: ['image/png'] };

interface Told {
  status: string;
  warnings: string | null;
}

/** The runs of images, the newest first: `partial files_failed`. */
async function runs({ read }: Pick<PictureStage, 'read'>): Promise<string[]> {
  const rows = await read((db) =>
    db
      .prepare<[], Told>(`SELECT status, warnings FROM _sync_runs WHERE resource = 'images' ORDER BY run_id DESC`)
      .all(),
  );
  return rows.map(({ status, warnings }) => {
    const stored: StoredWarning[] = JSON.parse(warnings ?? '[]');
    return [status, ...stored.map(({ code }) => code)].join(' ');
  });
}

describe.each(eitherDatabase(import.meta.filename))(
  'the newest run of files that come beside walks, on $name',
  (database) => {
    it('says how they stand by now, and why they wait', async () => {
      const stage = await pictureStage(database, { files: FILES });
      for (const id of ['a', 'b']) {
        stage.service.put({ id, has_file: true });
        stage.service.files.set(`/v1/images/${id}/file`, picture(id));
      }
      await stage.run('backfill');
      expect(await runs(stage)).toEqual(['ok']);
      const app = await stage.open();
      const signal = new AbortController().signal;
      const round = async (): Promise<void> =>
        app.files.updateNewestRuns(await app.files.fetch({ resources: ['images'], signal }));
      try {
        let broken = true;
        stage.service.instead = (_, response, url) =>
          broken && url.pathname.includes('/b/') && !!response.writeHead(503).end();
        await round();
        expect(await runs(stage)).toEqual(['partial files_failed']);
        broken = false;
        await stage.write(`UPDATE _sync_files SET due_at = '2026-01-01 00:00:00' WHERE status = 'failed'`);
        await round();
        expect(await runs(stage)).toEqual(['ok']);

        stage.service.put({ id: 'c', has_file: true });
        await stage.run('sync');
        await stage.write(`UPDATE _sync_files SET status = 'waiting', due_at = '2026-01-01 00:00:00'`);
        const full = new SyncError('file_store_full', 'no room in the store', { recovery: 'retry' });
        await app.files.updateNewestRuns(await app.files.countFiles(['images'], full));
        expect(await runs(stage)).toEqual(['partial files_waiting', 'ok']);
        const [message] = await stage.read((db) =>
          db.prepare<[], string>(`SELECT warnings FROM _sync_runs ORDER BY run_id DESC`).pluck().all(),
        );
        expect(message).toContain('2 files of images wait to be fetched: no room in the store');
        await round();
        expect(await runs(stage)).toEqual(['ok', 'ok']);
      } finally {
        await app.close();
      }
    });

    it('keeps what was told of its walk', async () => {
      const stage = await pictureStage(database, { files: FILES });
      stage.service.put({ id: 'a', has_file: true });
      await stage.run('backfill');
      const warning = { code: 'end_unproved', message: 'nothing shows the end', hint: 'see the profile' };
      await stage.write(`UPDATE _sync_runs SET status = 'partial', warnings = ?`, JSON.stringify([warning]));
      const app = await stage.open();
      try {
        const [report] = await app.files.countFiles(['images']);
        if (report === undefined) throw new Error('nothing stands');
        const refused = { code: 'files_refused', message: '1 file was refused', hint: 'see which' } as const;
        await app.files.updateNewestRuns([{ ...report, warnings: [refused] }]);
        expect(await runs(stage)).toEqual(['partial end_unproved files_refused']);
        await app.files.updateNewestRuns([{ ...report, warnings: [] }]);
        expect(await runs(stage)).toEqual(['partial end_unproved']);
        await stage.write(`UPDATE _sync_runs SET status = 'failed', warnings = NULL`);
        await app.files.updateNewestRuns([{ ...report, warnings: [refused] }]);
        expect(await runs(stage)).toEqual(['failed files_refused']);
      } finally {
        await app.close();
      }
    });
  },
);
