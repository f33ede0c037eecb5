import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { toTypableCommands } from '../../src/observe/scrub.ts';
import { type Ended, runCommand, startCommand } from '../support/command.ts';

const root = path.join(import.meta.dirname, '..', '..');
const { version }: { version: string } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

const run = (...args: string[]): Promise<Ended> => startCommand(args, tempFolder()).ended;
/** The same inside this process. */
const call = (...args: string[]): Promise<Ended> => runCommand(args, tempFolder());

function tempFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('the command line', () => {
  it.each(['--version', '-V'])('prints the version of package.json for %s', async (flag) => {
    expect(await run(flag)).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('prints the version with nothing but its own entry file there', () => {
    const folder = tempFolder();
    mkdirSync(path.join(folder, 'src'));
    for (const file of ['package.json', 'src/main.ts']) cpSync(path.join(root, file), path.join(folder, file));
    const ended = spawnSync(process.execPath, ['src/main.ts', '--version'], { cwd: folder, encoding: 'utf8' });
    expect(ended).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('prints its help with no library but commander there', () => {
    const folder = tempFolder();
    cpSync(path.join(root, 'src'), path.join(folder, 'src'), { recursive: true });
    cpSync(path.join(root, 'package.json'), path.join(folder, 'package.json'));
    mkdirSync(path.join(folder, 'node_modules'));
    symlinkSync(
      path.join(root, 'node_modules', 'commander'),
      path.join(folder, 'node_modules', 'commander'),
      'junction',
    );
    const ended = spawnSync(process.execPath, ['src/main.ts', '--help'], { cwd: folder, encoding: 'utf8' });
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(ended.stdout).toMatch(/Commands:\n\s+init .*\n.*Getting started:\n\s+content-sync init /s);
  });

  it('lists its commands, and each has a help of its own, on stdout', async () => {
    const { stdout } = await run('--help');
    const names = [...stdout.matchAll(/^ {2}([a-z]+)(?= )/gm)]
      .map(([, name = '']) => name)
      .filter((name) => name !== 'help');
    const listed =
      'init check backfill sync serve worker control status runs verify files warehouse forget deletes deliveries export config explain demo';
    expect(names.join(' ')).toBe(listed);
    const grouped = 'probe health pause resume retry grants rebuild alerts backup sandbox';
    names.push(...grouped.split(' '));
    for (const ended of await Promise.all(names.map((name) => call(name, '--help')))) {
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      expect(names.some((name) => ended.stdout.startsWith(`Usage: content-sync ${name} `))).toBe(true);
    }
  });

  it('ends with exit code 2 where it is called wrongly', async () => {
    expect(await run('syn')).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Did you mean') });
  });

  it.each([
    ['nothing at all', [], 'Usage: content-sync'],
    ['an unknown command, with the closest one', ['syn'], "unknown command 'syn'\n(Did you mean sync?)"],
    ['an unknown option', ['sync', '--frob'], "unknown option '--frob'"],
    [
      'an unknown option of a command below a command',
      ['config', 'alerts', 'test', '--frob'],
      "unknown option '--frob'",
    ],
    ['one argument too many', ['status', 'content'], 'too many arguments'],
    ['one argument too many below a command', ['config', 'alerts', 'test', 'a', 'b'], 'too many arguments'],
    ['an option without its value', ['sync', '--config'], "option '-c, --config <file>' argument missing"],
    ['an unknown log level', ['sync', '--log-level', 'loud'], 'trace, debug, info, warn, error, fatal, silent'],
    ['a sandbox flag that cannot be read', ['sandbox', '--port', 'x'], '--port must be a whole number'],
    ['a demo of a folder that is not there', ['demo', '--data', 'nowhere'], 'nowhere does not exist'],
  ])('refuses %s with exit code 2 and nothing on stdout', async (_, args, message) => {
    const ended = await call(...args);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(message);
  });

  it('prints commands as they were started by npm, in the help, hints and log lines, and no other text', async () => {
    const folder = tempFolder();
    const plain = await call('--help');
    vi.stubEnv('npm_lifecycle_event', 'content-sync');
    onTestFinished(() => void vi.unstubAllEnvs());
    const help = await call('--help');
    const names = [...plain.stdout.matchAll(/^ {2}([a-z]+)(?= )/gm)].map(([, name = '']) => name);
    expect(help.stdout).toContain('npm run -s content-sync -- init ');
    expect(help.stdout).not.toMatch(new RegExp(`(?<!run -s )content-sync (?:${names.join('|')}) `));
    expect(help.stdout).toContain('Usage: content-sync [options]');
    const hint = 'npm run -s content-sync -- init writes one';
    expect((await runCommand(['status'], folder)).stderr).toContain(hint);
    const logged = await runCommand(['backfill', '--json'], folder);
    expect(JSON.parse(logged.stderr)).toMatchObject({ error: { hint: expect.stringContaining(hint) } });
    for (const name of names.filter((each) => each !== 'help')) {
      expect(toTypableCommands(`run content-sync ${name}`)).toBe(`run npm run -s content-sync -- ${name}`);
    }
    expect(toTypableCommands('by content-sync 0.2.0, which content-sync made')).not.toContain('npm');
  });
});
