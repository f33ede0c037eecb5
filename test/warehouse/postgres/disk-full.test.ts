import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { POSTGRES } from '../../support/databases.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { scriptFile } from '../../support/child-script.ts';

const SCRIPT = scriptFile(new URL('filling.ts', import.meta.url));

describe.skipIf(POSTGRES.missing !== null)('a disk of the Postgres server that is full', () => {
  it('F141 refuses the page in hand, keeps all others, and takes the rest once there is room', (context) => {
    const folder = tempFolder();
    // A mount namespace of its own: the volume is gone with the process.
    const mount = 'mount -t tmpfs -o size=40m,mode=755 tmpfs "$1"';
    if (spawnSync('unshare', ['-m', 'sh', '-c', mount, 'sh', folder]).status !== 0) {
      context.skip('this user may not mount a small volume');
    }
    const command = `${mount} && "$2" "$3" "$1"`;
    const { stdout, stderr } = spawnSync(
      'unshare',
      ['-m', 'sh', '-c', command, 'sh', folder, process.execPath, SCRIPT],
      { encoding: 'utf8', timeout: 60_000 },
    );
    expect(stderr).toBe('');
    const { full, kept, sizes, refused, end, rows } = JSON.parse(stdout);
    const hint = expect.stringContaining('it resumes where it stopped');
    expect(full).toBeGreaterThan(0);
    expect([kept, sizes]).toEqual([Number(full) * 100, [100]]);
    expect(refused).toEqual([
      { code: 'warehouse_full', hint },
      { code: 'warehouse_full', hint },
    ]);
    expect([end, rows]).toEqual([60, 6_000]);
  });
});
