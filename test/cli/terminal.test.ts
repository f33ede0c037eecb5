import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, it, vi } from 'vitest';
import { MAIN } from '../support/command.ts';
import { journey } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';

const RECORDS = { content: 400, images: 50, analytics: 300 };

/** util-linux's `script` gives a process a terminal of its own; other systems have another one, or none. */
const hasTerminal = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ?? false;
if (!hasTerminal) console.log('skipped: util-linux `script` is not here, so nothing can be given a terminal');

/** Runs content-sync on a terminal of 100 columns; what it showed, control characters and all. */
async function onTerminal(folder: string, ...args: string[]): Promise<{ code: number; shown: string }> {
  const words = [process.execPath, MAIN, ...args].map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`);
  const command = `stty cols 100 rows 30; exec ${words.join(' ')}`;
  // A person's terminal: Node takes one of a build server for one without colours.
  const { CI: _, ...usual } = process.env;
  const env = { ...usual, TERM: 'xterm-256color', COLORTERM: '', NO_COLOR: process.env['PLAIN'] };
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [shown, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, shown };
}

describe.skipIf(!hasTerminal)('on a terminal', () => {
  it('a run shows one live line per resource, no log, and a summary at its end', async () => {
    const blog = await journey({ sandbox: { generate: RECORDS, rate: 20, burst: 3 } });
    const { code, shown } = await onTerminal(blog.folder, 'backfill', '--config', blog.config);
    expect(code).toBe(0);
    expect(shown).toMatch(/content .*\d+\/400 .* req\/s .*ETA/);
    expect(shown).toMatch(/limit 20\.0\/s/);
    expect(shown).toContain('\x1b[J');
    expect(shown).not.toContain('{"level"');
    expect(shown).toMatch(/content +ok \(full\): 400 new, 0 changed, 0 unchanged, 5 requests, \d+s\r\n/);
  });

  it('an error is a sentence with what to do next', async () => {
    const fault = { fault: 'status', status: 403, resource: 'images' } as const;
    const blog = await journey({ sandbox: { generate: RECORDS, fault: [fault] } });
    const { code, shown } = await onTerminal(blog.folder, 'backfill', '--config', blog.config);
    expect(code).toBe(3);
    expect(shown).toMatch(/images +failed \(full\): 0 new/);
    expect(shown).toMatch(/answered 403: .*\[forbidden\]\r\n +→ Give the key or client read access/);
  });

  it('what is good and bad has its colour, unless NO_COLOR is set; what is piped has none', async () => {
    const fault = { fault: 'status', status: 403, resource: 'images' } as const;
    const blog = await journey({ sandbox: { generate: { content: 5, images: 5, analytics: 5 }, fault: [fault] } });
    await blog.run('backfill');
    const look = (...args: string[]) => onTerminal(blog.folder, ...args, '--config', blog.config);
    const [green, red] = ['\x1b[32m', '\x1b[31m'];
    const status = await look('status');
    expect(lineOf(status.shown, 'content ')).toContain(`${green}ok`);
    expect(lineOf(status.shown, 'images ')).toContain(`${red}failed`);
    for (const [command, colour] of longOrShort(
      [
        [['runs', '--failed'], `${red}failed`],
        [['check', 'content'], `${green}ok  `],
      ] as const,
      [],
    )) {
      expect((await look(...command)).shown).toContain(colour);
    }
    vi.stubEnv('PLAIN', '1');
    expect((await look('status')).shown).not.toContain('\x1b[3');
    vi.unstubAllEnvs();
    expect((await blog.command('status')).stdout).not.toContain('\x1b');
  });
});

function lineOf(text: string, word: string): string {
  return text.split('\n').find((line) => line.includes(word)) ?? '';
}
