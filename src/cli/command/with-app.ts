import { openApp, openProbe, type App, type Probe } from '../../app.ts';
import type { WarehouseReader } from '../../warehouse/reading.ts';
import type { CliContext } from './context.ts';
import type { ChosenSource } from './sources.ts';

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

/** The same for a command that writes nothing; `reader` is the warehouse, null if there is none yet. */
export async function withProbe<T>(
  { clock, secrets }: CliContext,
  { source, log }: Pick<ChosenSource, 'source' | 'log'>,
  reader: WarehouseReader | null,
  work: (probe: Probe) => Promise<T>,
): Promise<T> {
  const probe = await openProbe({ source, clock, log, secrets }, reader);
  try {
    return await work(probe);
  } finally {
    await probe.close();
  }
}
