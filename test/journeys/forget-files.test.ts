import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { uploadFile } from '../support/serving.ts';

const IDS = ['img_000000000', 'img_000000001', 'img_000000002'] as const;

it.each(eitherDatabase(import.meta.filename))(
  'a forgotten record leaves none of its pictures, unless another one shows them, on $name',
  { timeout: 60_000 },
  async (database) => {
    const stage = await journey({
      database,
      sandbox: { generate: { images: 4 } },
      source: { files: { store: 'disk:pictures' } },
      settings: { privacy_key: 'a-privacy-key-of-this-test' },
    });
    const answer = await fetch(`${stage.sandbox.url}/v1/images/img_000000003/file`, {
      headers: { authorization: `Bearer ${stage.sandbox.apiKey}` },
    });
    const picture = Buffer.from(await answer.arrayBuffer());
    const earlier = await uploadFile(stage.sandbox, IDS[0], Buffer.concat([picture, Buffer.from('earlier')]));
    const copy = async (): Promise<void> => expect((await stage.command('backfill', 'images')).code).toBe(0);
    await copy();
    const shared = await uploadFile(stage.sandbox, IDS[0], Buffer.concat([picture, Buffer.from('shared')]));
    await uploadFile(stage.sandbox, IDS[1], Buffer.concat([picture, Buffer.from('shared')]));
    await copy();
    const isThere = (hash: string): boolean => existsSync(path.join(stage.folder, 'pictures', hash.slice(0, 2), hash));
    const forget = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await stage.command('forget', 'images', ...args, '--yes', '--json')).stdout);
    const named = (id: string): Promise<unknown> =>
      stage.read(
        (db) =>
          db.prepare<[string], { n: number }>('SELECT count(*) AS n FROM _sync_files WHERE record_id = ?').get(id)?.n,
      );

    expect([isThere(earlier), isThere(shared), await named(IDS[0])]).toEqual([true, true, 2]);
    expect(await forget(IDS[0], '--dry-run')).toMatchObject({ outcome: 'dry run', erased: { files: 2 } });
    expect(await forget(IDS[0])).toMatchObject({ outcome: 'erased', erased: { rows: 1, files: 2 }, todo: [] });
    // The other one is as it was, and shows the same content.
    expect([isThere(earlier), isThere(shared), await named(IDS[0]), await named(IDS[1])]).toEqual([false, true, 0, 2]);
    expect(await forget(IDS[1])).toMatchObject({ outcome: 'erased', erased: { rows: 1, files: 2 } });
    expect([isThere(shared), await named(IDS[1])]).toEqual([false, 0]);
    await copy();
    expect([isThere(shared), await named(IDS[0]), await named(IDS[1]), await named(IDS[2])]).toEqual([false, 0, 0, 1]);
    const view = await stage.all<{ sha256: string }>('SELECT sha256 FROM _sync_file_objects');
    const left = view.map(({ sha256 }) =>
      readFileSync(path.join(stage.folder, 'pictures', sha256.slice(0, 2), sha256)),
    );
    expect(left).toHaveLength(2);

    // A store that is not there any more is told of, and the rest is done all the same.
    stage.setSource({ files: { store: 'disk:elsewhere' } });
    expect(await forget(IDS[2])).toMatchObject({
      outcome: 'unfinished',
      todo: [expect.stringContaining('files prune')],
    });
    stage.setSource({ files: { store: 'disk:pictures' } });
    expect(await forget()).toMatchObject({ outcome: 'erased', todo: [] });
  },
);
