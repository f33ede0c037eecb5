import { startSandbox, type SandboxOptions } from '../sandbox/service/sandbox.ts';
import type { AccountFigures } from './many-stage.ts';

/** Many accounts, each a sandbox with a limit of its own, in one process; `many-stage.ts` starts it. */
const { accounts, ...options }: SandboxOptions & { accounts: number } = JSON.parse(process.argv[2] ?? '{}');
const sandboxes = await Promise.all(Array.from({ length: accounts }, () => startSandbox(options)));

const ANSWERS: Readonly<Record<string, () => unknown>> = {
  clear: () => sandboxes.forEach(({ requests }) => requests.clear()),
  figures: () =>
    sandboxes.map(({ requests }): AccountFigures => {
      const pages = requests.entries().filter(({ status, path }) => status === 200 && path.includes('?'));
      const twice = pages.length - new Set(pages.map(({ path }) => path)).size;
      return { requests: requests.total, refused: requests.byStatus[429] ?? 0, twice };
    }),
};

process.on('message', (ask: string) => process.send?.(ANSWERS[ask]?.() ?? null));
process.on('disconnect', () => process.exit());
process.send?.(sandboxes.map(({ url, apiKey }) => ({ url, apiKey })));
