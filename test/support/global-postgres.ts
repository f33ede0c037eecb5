import type { TestProject } from 'vitest/node';
import { memoryFolder } from './memory-folder.ts';
import { startPostgres, type PostgresServer } from './postgres-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Address of the server that all tests share; empty where this machine has none. */
    postgres: string;
  }
}

/** One server for all test files of a run, each test in a schema or database of its own. */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  try {
    const server = await startInMemory();
    project.provide('postgres', server.url());
    return () => server.remove();
  } catch (error) {
    process.stdout.write(`tests on Postgres are skipped: ${error instanceof Error ? error.message : String(error)}\n`);
    project.provide('postgres', '');
    return undefined;
  }
}

/** Programs cannot be started from every such folder, and a clone that only root can read needs copies of them. */
async function startInMemory(): Promise<PostgresServer> {
  const within = memoryFolder();
  // Pages are in memory anyway: to have other processes read them takes longer.
  const settings = { io_method: 'sync' };
  if (within === null) return startPostgres({ settings, isFirst: true });
  try {
    return await startPostgres({ within, settings, isFirst: true });
  } catch {
    return startPostgres({ settings, isFirst: true });
  }
}
