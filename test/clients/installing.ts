import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Where clients are installed, and found again the next time. */
export const CACHE = process.env['CLIENTS_CACHE'] ?? path.join(tmpdir(), 'content-sync-clients');

/** Runs a program to its end and returns what it printed. Throws with the end of what it said against it. */
export async function runProgram(
  file: string,
  args: readonly string[],
  { cwd = CACHE, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  mkdirSync(cwd, { recursive: true });
  try {
    const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 2 ** 28, timeout: 600_000 };
    return (await run(file, args, options)).stdout;
  } catch (error) {
    const { stderr = '', stdout = '', message } = Object(error);
    throw new Error(
      `${path.basename(file)}: ${String(stderr || stdout || message)
        .trim()
        .slice(-1_500)}`,
      { cause: error },
    );
  }
}

/** Null if it ran, else why not in one line. */
export async function reasonOf(attempt: () => Promise<unknown>): Promise<string | null> {
  try {
    await attempt();
    return null;
  } catch (error) {
    const lines = (error instanceof Error ? error.message : String(error)).split('\n').filter((line) => line !== '');
    return (lines.at(-1) ?? 'for no reason that it told').slice(0, 200);
  }
}

/** A Python that can import these modules: the machine's, or one that pip has filled. Throws where there is none. */
export async function pythonWith(
  name: string,
  modules: readonly string[],
  packages: readonly string[],
): Promise<string> {
  const check = ['-c', modules.map((module) => `import ${module}`).join('\n')];
  const own = path.join(CACHE, name, 'bin/python');
  for (const python of [own, '/usr/bin/python3', 'python3']) {
    if ((await reasonOf(() => runProgram(python, check))) === null) return python;
  }
  await runProgram('python3', ['-m', 'venv', path.join(CACHE, name)]);
  await runProgram(own, ['-m', 'pip', 'install', '--quiet', ...packages]);
  await runProgram(own, check);
  return own;
}
