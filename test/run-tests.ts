import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/**
 * `npm test`: the tests, and beside them, one after the other and at the lowest priority, the static checks. All run
 * even if one fails; the last line counts them.
 */
const root = path.join(import.meta.dirname, '..');
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-tests-'));
const report = path.join(folder, 'vitest.json');

const CHECKS: readonly [name: string, command: string, ...args: string[]][] = [
  ['format', 'oxfmt', '-c', 'test/oxfmt.json', '--check', '.', '!config/deploy/**'],
  ['lint', 'oxlint', '-c', 'test/oxlint.json', '--type-aware', '--deny-warnings', 'src', 'migrations', 'test'],
  ['types', 'tsc', '-p', 'test/tsconfig.json', '--incremental', '--tsBuildInfoFile', 'node_modules/.cache/types.json'],
  ['unused code', 'knip'],
];
const VITEST = [
  'run',
  '-c',
  'test/vitest.config.ts',
  '--reporter=default',
  '--reporter=json',
  `--outputFile=${report}`,
];

const vitest = spawn('vitest', [...VITEST, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' });
const [checks, isGreen] = await Promise.all([runChecks(), isGood(vitest)]);
process.stdout.write(checks.map(({ text }) => text).join(''));
const tests = readReport();
const good = checks.filter((check) => check.isGood).length;
const passed = good + tests.passed;
// A run that fails without a failed test (a file that does not load, an error outside a test) is a failure too.
const failed = checks.length - good + (tests.failed === 0 && !isGreen ? 1 : tests.failed);
rmSync(folder, { recursive: true, force: true });
process.stdout.write(`${passed} passed, ${failed} failed, ${tests.skipped} skipped\n`);
process.exitCode = failed === 0 ? 0 : 1;

async function runChecks(): Promise<{ isGood: boolean; text: string }[]> {
  const done: { isGood: boolean; text: string }[] = [];
  for (const [name, ...command] of CHECKS) {
    const child = spawn('nice', ['-n', '19', ...command], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)));
    const wasGood = await isGood(child);
    done.push({ isGood: wasGood, text: `${text}${name}: ${wasGood ? 'ok' : 'FAILED'}\n` });
  }
  return done;
}

/** True once a process has ended well; false also if it could not be started. */
async function isGood(child: ChildProcess): Promise<boolean> {
  const [code] = await once(child, 'close').catch(() => [1]);
  return code === 0;
}

/** Counts of vitest's own report; all zero if it wrote none. */
function readReport(): { passed: number; failed: number; skipped: number } {
  try {
    const counts: { numPassedTests: number; numFailedTests: number; numPendingTests: number; numTodoTests: number } =
      JSON.parse(readFileSync(report, 'utf8'));
    const { numPassedTests: passed, numFailedTests, numPendingTests, numTodoTests } = counts;
    return { passed, failed: numFailedTests, skipped: numPendingTests + numTodoTests };
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
}
