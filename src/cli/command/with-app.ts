import { openApp, type App, type AppOptions } from '../../server/app.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

/** Runs `work` with what was opened, and closes it again whatever happens. */
export async function whileOpen<Opened extends { close(): Promise<void> }, T>(
  opened: Opened,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

/** Wires the source up, runs `work` with it, and closes it again. */
export async function withApp<T>(
  { clock, secrets }: CliContext,
  { source, log, retried }: Pick<ChosenSource, 'source' | 'log'> & Pick<AppOptions, 'retried'>,
  work: (app: App) => Promise<T>,
): Promise<T> {
  return whileOpen(await openApp({ source, clock, log, secrets, ...(retried === undefined ? {} : { retried }) }), work);
}
