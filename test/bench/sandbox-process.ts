import type { SandboxOptions } from '../sandbox/service/sandbox.ts';
import { startSandbox } from '../sandbox/service/sandbox.ts';

/** The sandbox as a process of its own whose strings the bench pulls from outside; `staged.ts` starts it. */
const options: SandboxOptions = JSON.parse(process.argv[2] ?? '{}');
const sandbox = await startSandbox(options);
const { store, requests } = sandbox;

interface Call {
  number: number;
  ask: string;
  of: string[];
}

/** What can be asked for, by name. */
const ANSWERS: Readonly<Record<string, (...of: string[]) => unknown>> = {
  ids: (resource = '') => [...store.list(resource)].map(({ id }) => id),
  requests: () => requests.entries(),
};

process.on('message', ({ number, ask, of }: Call) => process.send?.({ number, answer: ANSWERS[ask]?.(...of) ?? null }));
process.on('disconnect', () => process.exit());
process.send?.({ number: 0, answer: { url: sandbox.url, apiKey: sandbox.apiKey } });
