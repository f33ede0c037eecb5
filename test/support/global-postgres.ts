import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Address of the server that all tests share; empty where this machine has none. */
    postgres: string;
  }
}

/** One server for all test files of a run, each test in a schema or database of its own. */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  try {
    const server = await startPostgres();
    project.provide('postgres', server.url());
    return () => server.remove();
  } catch (error) {
    process.stdout.write(`tests on Postgres are skipped: ${error instanceof Error ? error.message : String(error)}\n`);
    project.provide('postgres', '');
    return undefined;
  }
}
