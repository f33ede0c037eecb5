/**
 * Keeps the environment, where secrets stand, out of the diagnostic reports that Node writes by itself (`--report-...`).
 * To be called first thing, and in each thread: each has a switch of its own.
 */
export function excludeEnvironment(): void {
  process.report.excludeEnv = true;
}
