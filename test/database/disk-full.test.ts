import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { MAIN } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import { journey } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';
import { rowsIn } from '../support/temp-warehouse.ts';

const RECORDS = longOrShort(3_000, 1_500);

describe('a disk that is full', () => {
  it('F125 is told by a file-size limit too: the backfill fails with what to do, and the next one goes on', async () => {
    const j = await journey({ sandbox: { generate: { content: RECORDS, images: 10, analytics: 10 } } });
    // In blocks of 512 bytes: enough for our own tables and some pages.
    const limited = await backfill(j.config, 'ulimit -f 6400; exec');
    expect(limited.code).toBe(1);
    expect(limited.stderr + limited.stdout).toContain('warehouse_full');
    expect(limited.stderr + limited.stdout).toContain('resumes where it stopped');
    expect(rowsIn(j.file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    const [before] = rowsIn(j.file, 'SELECT count(*) AS n FROM content');
    expect(Number(before?.['n'])).toBeGreaterThan(0);
    expect(Number(before?.['n'])).toBeLessThan(RECORDS);

    const free = await j.command('backfill', '--json');
    expect([free.code, free.stderr]).toEqual([0, '']);
    expect(await j.read((db) => differences(db, j.sandbox.store))).toEqual([]);
    expect(Number(JSON.parse(free.stdout).resources[0].inserted)).toBe(RECORDS - Number(before?.['n']));
  });
});

/** The real command line, as a process under what the shell says before it. */
async function backfill(config: string, shell: string): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const child = spawn('sh', [
    '-c',
    `${shell} "$@"`,
    'sh',
    process.execPath,
    MAIN,
    'backfill',
    'content',
    '--json',
    '--config',
    config,
  ]);
  const [[code], stdout, stderr] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr };
}
