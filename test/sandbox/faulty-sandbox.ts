import type { FaultScript } from './service/faults/fault-script.ts';
import type { Sandbox, SandboxOptions } from './service/sandbox.ts';
import { sandboxFor } from './service-client.ts';

export const LIST = '/v1/content?limit=10';

/** Fifty records, and one thing that goes wrong with them. */
export async function faulty(script: FaultScript, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await sandboxFor({ generate: { content: 50 }, ...options });
  sandbox.faults.add(script);
  return sandbox;
}
