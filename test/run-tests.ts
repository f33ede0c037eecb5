import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** `npm test`: every check in turn, all of them even when one fails, and one line at the end that counts them. */
const root = path.join(import.meta.dirname, '..');
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-tests-'));
const report = path.join(folder, 'vitest.json');

const CHECKS: readonly [name: string, command: string, ...args: string[]][] = [
  ['format', 'oxfmt', '-c', 'test/oxfmt.json', '--check', '.', '!config/deploy/**'],
  ['lint', 'oxlint', '-c', 'test/oxlint.json', '--type-aware', '--deny-warnings', 'src', 'migrations', 'test'],
  // What was found good stays known for the next time, and with it what need not be looked at again.
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

let passed = 0;
let failed = 0;
for (const [name, command, ...args] of CHECKS) {
  const isGood = run(command, args);
  process.stdout.write(`${name}: ${isGood ? 'ok' : 'FAILED'}\n`);
  if (isGood) passed += 1;
  else failed += 1;
}
const isGreen = run('vitest', [...VITEST, ...process.argv.slice(2)]);
const tests = readReport();
passed += tests.passed;
// A run that fails without a failed test (a file that does not load, an error outside a test) is a failure too.
failed += tests.failed === 0 && !isGreen ? 1 : tests.failed;
rmSync(folder, { recursive: true, force: true });
process.stdout.write(`${passed} passed, ${failed} failed, ${tests.skipped} skipped\n`);
process.exitCode = failed === 0 ? 0 : 1;

function run(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { cwd: root, stdio: 'inherit' }).status === 0;
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
