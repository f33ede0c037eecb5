import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { inject, onTestFinished } from 'vitest';

/** A script of the tests, running as a process of its own; killed with the test at the latest. */
export interface ChildScript {
  child: ChildProcess;
  /** The first line that it prints: it is where the test wants it. */
  ready: Promise<string>;
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }>;
}

const ROOT = path.join(import.meta.dirname, '../..');

/** The file to start for a script: as it is built, or itself where nothing was built for the run. */
export function scriptFile(script: URL): string {
  const folder = inject('scripts');
  const file = fileURLToPath(script);
  if (folder === undefined) return file;
  const built = path.join(folder, path.relative(ROOT, file).replace(/\.ts$/, '.js'));
  return existsSync(built) ? built : file;
}

/** Runs `script` with the very Node that runs the tests; `shell`, where given, is put before it (`ulimit -f 1; exec`). */
export function startScript(script: URL, args: readonly string[], shell: string | null = null): ChildScript {
  const command = [process.execPath, scriptFile(script), ...args];
  const child =
    shell === null
      ? spawn(process.execPath, command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
      : spawn('sh', ['-c', `${shell} "$@"`, 'sh', ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = endOf(child);
  const ready = new Promise<string>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString())),
  );
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, ready, ended };
}

async function endOf(child: ChildProcess): Promise<Awaited<ChildScript['ended']>> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('the child has no pipes');
  const [[code, signal], out, err] = await Promise.all([once(child, 'close'), text(stdout), text(stderr)]);
  return { code, signal, stdout: out, stderr: err };
}
