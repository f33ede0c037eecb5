import { expect, onTestFinished } from 'vitest';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../sandbox/service/sandbox.ts';
import { startScript, type ChildScript } from '../../support/child-script.ts';
import { preparedPostgres } from '../../support/databases.ts';
import type { Asking } from './asking-process.ts';

const SCRIPT = new URL('asking-process.ts', import.meta.url);

/** A service with a limit, and an empty Postgres database that those who ask it share. */
export interface Stage {
  sandbox: Sandbox;
  /** Starts a process that asks; resolves once it does. */
  ask: (options?: Partial<Asking>) => Promise<ChildScript>;
}

export async function askingStage(options: SandboxOptions): Promise<Stage> {
  const sandbox = await startSandbox({ generate: { content: 3 }, ...options });
  onTestFinished(() => sandbox.close());
  const warehouse = await preparedPostgres();
  const usual = { lane: 'backfill', workers: 8, concurrency: 32, forMs: 10_000 } as const;
  const service = { warehouse, url: `${sandbox.url}/v1/content`, apiKey: sandbox.apiKey };
  return {
    sandbox,
    ask: async (choices = {}) => {
      const script = startScript(SCRIPT, [JSON.stringify({ ...usual, ...service, ...choices })]);
      await Promise.race([script.ready, script.ended.then(({ stderr }) => Promise.reject(new Error(stderr)))]);
      return script;
    },
  };
}

export async function figuresOf(script: ChildScript): Promise<Record<string, number>> {
  const { stdout, stderr } = await script.ended;
  expect(stderr).toBe('');
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}');
}
