import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { MAIN } from '../support/command.ts';
import { journey } from '../support/journey.ts';

/** In a mount namespace of its own: the volume is gone with it. */
const RUNS = `mount -t tmpfs -o size=1m tmpfs "$1" || exit 77
head -c 2000000 /dev/zero > "$1/filler" 2>/dev/null
"$2" "$3" sync --json --config "$4"
echo "full: $?"
rm "$1/filler"
"$2" "$3" sync --json --config "$4"
echo "room: $?"
find "$1" -type f ! -name .owner | wc -l`;

interface Told {
  status: string;
  resources: { status: string; files: Record<string, number>; warnings?: { code: string; message: string }[] }[];
}

it('a store that is full has files wait, loses none, and takes them all when there is room', async (context) => {
  const stage = await journey({
    database: SQLITE,
    sandbox: { generate: { images: 60 } },
    source: { resources: ['images'], files: { store: 'disk:volume/files' } },
    profile: { resources: { images: { files: { at: '/images/{id}/file', types: ['image/*'] } } } },
  });
  const volume = path.join(stage.folder, 'volume');
  mkdirSync(volume);
  const { status, stdout, stderr } = await runs(stage.folder, volume, stage.config);
  context.skip(status === 77 || /unshare/.test(stderr), 'no mounts here');
  const [full, fullCode, room, roomCode, files] = stdout.trim().split('\n');
  const first: Told = JSON.parse(full ?? '');
  expect(first.resources[0]).toMatchObject({ status: 'partial', files: { stored: 0, waiting: 60, failed: 0 } });
  expect(first.resources[0]?.warnings?.map(({ code }) => code)).toEqual(['files_waiting']);
  expect(first.resources[0]?.warnings?.[0]?.message).toMatch(/no room|no space/);
  expect(fullCode).toBe('full: 3');
  const second: Told = JSON.parse(room ?? '');
  expect(second.resources[0]).toMatchObject({ status: 'ok', files: { fetched: 60, stored: 60, waiting: 0 } });
  expect(roomCode).toBe('room: 0');
  expect(Number(files)).toBe(60);
});

/** The sandbox lives in this process, and must be heard meanwhile. */
async function runs(cwd: string, ...args: string[]) {
  const [volume = '', config = ''] = args;
  const child = spawn('unshare', ['-m', 'sh', '-c', RUNS, 'sh', volume, process.execPath, MAIN, config], { cwd });
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  const status = await new Promise<number | null>((resolve) => {
    child.on('close', resolve);
    child.on('error', () => resolve(77));
  });
  return { status, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() };
}
