import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { servingStage, until, type ServingStage } from '../support/serving.ts';

const FILES = { at: '/images/{id}/file', types: ['image/svg+xml', 'image/*'] };
const IMAGES = 60;

/** A volume of its own, full until the file `room` is there; it is gone with the process. */
const ON_FULL_VOLUME = `mount -t tmpfs -o size=1m tmpfs "$VOLUME" || exit 77
head -c 2000000 /dev/zero > "$VOLUME/filler" 2>/dev/null
(while [ ! -e "$VOLUME.room" ]; do sleep 0.2; done; find "$VOLUME" -name filler -delete; df "$VOLUME" >/dev/null) &
exec "$@"`;

function whyNot(): string | null {
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'no volume can be mounted here: that takes root and unshare';
  }
}

const missing = whyNot();
if (missing !== null) console.info(`serve beside a full volume is not tried: ${missing}`);

function countOf(stage: ServingStage, query: string): Promise<number> {
  return stage.read((db) => {
    const isThere = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = '_sync_files'`).get() !== undefined;
    return isThere ? (db.prepare<[], number>(query).pluck().get() ?? 0) : 0;
  });
}

const STORED = "SELECT count(*) FROM _sync_files WHERE status = 'stored' AND valid_to IS NULL";

describe.skipIf(missing !== null).each(DATABASES)('serve beside a full volume, on $name', (database) => {
  it('parks the files and tells it, goes on with records, and takes all files when there is room', async () => {
    const stage = await servingStage({
      database,
      sandbox: { generate: { images: IMAGES } },
      profile: { resources: { images: { files: FILES } } },
      source: { resources: ['images'], files: { store: 'disk:volume/files' } },
    });
    const volume = path.join(stage.folder, 'volume');
    mkdirSync(volume);
    const shell = `VOLUME='${volume}' exec unshare -m sh -c '${ON_FULL_VOLUME}' sh`;
    const serving = await stage.serve({ shell });
    await stage.subscribe(serving);
    const rows = (): Promise<number> => countOf(stage, 'SELECT count(*) FROM images WHERE _deleted_at IS NULL');
    await until('the records are here', async () => (await rows()) === IMAGES || rows(), 90_000);
    await until(
      'the files are put off, and the page says so',
      async () => {
        const { attention } = await serving.status();
        return attention.some((one) => /no room|no space|ENOSPC/i.test(JSON.stringify(one))) || attention;
      },
      90_000,
    );
    const told = (): Promise<string | undefined> =>
      stage.read((db) =>
        db.prepare<[], string>('SELECT warnings FROM _sync_runs ORDER BY run_id DESC LIMIT 1').pluck().get(),
      );
    await until(
      'the run says so',
      async () => /files_waiting.*(no room|no space|ENOSPC)/i.test((await told()) ?? '') || told(),
      60_000,
    );
    // Records go on meanwhile: one that is new, told by a webhook.
    const [first] = stage.sandbox.store.list('images');
    stage.sandbox.store.put('images', {
      ...JSON.parse(first?.text ?? '{}'),
      id: 'image-late',
      updated_at: new Date().toISOString(),
    });
    const late = "SELECT count(*) FROM images WHERE id = 'image-late'";
    await until('the new record is here', async () => (await countOf(stage, late)) === 1 || rows(), 90_000);
    expect(await countOf(stage, STORED)).toBe(0);

    writeFileSync(`${volume}.room`, '');
    const wanted = "SELECT count(*) FROM _sync_files WHERE status <> 'gone' AND valid_to IS NULL";
    await until(
      'all files are here',
      async () => {
        const [stored, all] = [await countOf(stage, STORED), await countOf(stage, wanted)];
        return (stored === all && stored >= IMAGES) || { stored, all };
      },
      120_000,
    );
    await until(
      'nothing needs attention',
      async () => {
        const { attention } = await serving.status();
        return !/no room|no space|ENOSPC/i.test(JSON.stringify(attention)) || attention;
      },
      60_000,
    );
    await until(
      'the run says no more of it',
      async () => !/files_waiting/.test((await told()) ?? '') || told(),
      60_000,
    );
    expect((await serving.stop()).code).toBe(0);
  }, 400_000);
});
