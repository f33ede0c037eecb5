import { openApp, type App } from '../app.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './open-sources.ts';

/** Wires the source up, runs `work` with it, and closes it again whatever happens. */
export async function withApp<T>(
  { clock, secrets }: CliContext,
  { source, log }: Pick<ChosenSource, 'source' | 'log'>,
  work: (app: App) => Promise<T>,
): Promise<T> {
  const app = await openApp({ source, clock, log, secrets });
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}
