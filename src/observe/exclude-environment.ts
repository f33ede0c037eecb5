/**
 * Keeps the environment, which holds secrets, out of the diagnostic reports that Node writes (`--report-...`).
 * Called first, and in each thread, because each has its own switch.
 */
export function excludeEnvironment(): void {
  process.report.excludeEnv = true;
}
